// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/curvature/kernels.h"

#include "codecs/arithmetic/curvature_terms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/curvature/kernels.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// See curvature_terms.h.

/// curvature::power
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power(D d, V x, float scale) {
  const V rounds = hn::Set(d, curvature::kRounds);
  const V sum = hn::MulAdd(x, hn::Set(d, scale), rounds);
  const V f = hn::MulSub(x, hn::Set(d, scale), hn::Sub(sum, rounds));
  V p = hn::Set(d, curvature::kPower5);
  p = hn::MulAdd(p, f, hn::Set(d, curvature::kPower4));
  p = hn::MulAdd(p, f, hn::Set(d, curvature::kPower3));
  p = hn::MulAdd(p, f, hn::Set(d, curvature::kPower2));
  p = hn::MulAdd(p, f, hn::Set(d, curvature::kPower1));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const hn::RebindToUnsigned<D> words;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(words, sum));
  return hn::BitCast(d, hn::Add(hn::BitCast(words, p), exponent));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V reciprocal(D d, V x) {
  return hn::Div(hn::Set(d, 1.0F), x);
}

/// curvature::factor
template <class D, class V = hn::Vec<D>>
HWY_INLINE V factor(D d, V step) {
  return hn::Mul(hn::Mul(step, step), hn::Set(d, 1.0F / 24));
}

/// GELU's second derivative, of the bell exp(-square / 2).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V bend(D d, V bell, V square) {
  return hn::Mul(hn::Mul(bell, hn::Set(d, curvature::kDensityAt0)),
                 hn::Sub(hn::Set(d, 2.0F), square));
}

/// curvature::AtDistance
template <class V>
struct AtDistance {
  V tail;
  V second;
};

struct OfGelu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V a) const {
    const V square = hn::Min(hn::Mul(a, a), hn::Set(d, 2 * curvature::kFlat));
    const V bell = power(d, square, -0.5F * curvature::kLog2E);
    const V t = reciprocal(d, hn::MulAdd(a, hn::Set(d, curvature::kTail), hn::Set(d, 1.0F)));
    V p = hn::Set(d, curvature::kTail5);
    p = hn::MulAdd(p, t, hn::Set(d, curvature::kTail4));
    p = hn::MulAdd(p, t, hn::Set(d, curvature::kTail3));
    p = hn::MulAdd(p, t, hn::Set(d, curvature::kTail2));
    p = hn::MulAdd(p, t, hn::Set(d, curvature::kTail1));
    return {hn::Mul(hn::Mul(p, t), bell), bend(d, bell, square)};
  }
};

struct OfGeluTanh {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V a) const {
    const V one = hn::Set(d, 1.0F);
    const V square = hn::Mul(a, a);
    const V cubic = hn::MulAdd(square, hn::Set(d, curvature::kCube), one);
    const V twice = hn::Mul(hn::Mul(cubic, a), hn::Set(d, 2 * curvature::kSlope));
    const V e = power(d, hn::Min(twice, hn::Set(d, curvature::kFlat)), -curvature::kLog2E);
    const V flat = hn::Min(square, hn::Set(d, 2 * curvature::kFlat));
    const V bell = power(d, flat, -0.5F * curvature::kLog2E);
    return {hn::Mul(e, reciprocal(d, hn::Add(one, e))), bend(d, bell, flat)};
  }
};

struct OfSilu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V distance) const {
    const V one = hn::Set(d, 1.0F);
    const V a = hn::Min(distance, hn::Set(d, curvature::kFlat));
    const V e = power(d, a, -curvature::kLog2E);
    const V r = reciprocal(d, hn::Add(one, e));
    const V tail = hn::Mul(e, r);
    const V slope = hn::Mul(hn::Mul(a, hn::Sub(one, e)), r);
    return {tail, hn::Mul(hn::Mul(tail, r), hn::Sub(hn::Set(d, 2.0F), slope))};
  }
};

/// @param step_at step_at(d, k): the steps of the elements from k on
template <class Function, class StepAt>
HWY_INLINE void apply(const Function& function, std::int64_t n, const float* x,
                      const StepAt& step_at, float* y) {
  const auto run = [&](auto d, std::int64_t k) HWY_ATTR {
    const auto v = hn::LoadU(d, x + k);
    const auto a = hn::Abs(v);
    const auto at = function(d, a);
    const auto f = hn::NegMulAdd(a, at.tail, hn::Max(v, hn::Zero(d)));
    hn::StoreU(hn::NegMulAdd(at.second, factor(d, step_at(d, k)), f), d, y + k);
  };
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes) run(d, k);
  for (; k < n; ++k) run(hn::CappedTag<float, 1>(), k);
}

template <class StepAt>
HWY_INLINE void apply(Smooth function, std::int64_t n, const float* x, const StepAt& step_at,
                      float* y) {
  switch (function) {
    case Smooth::gelu:
      return apply(OfGelu(), n, x, step_at, y);
    case Smooth::gelu_tanh:
      return apply(OfGeluTanh(), n, x, step_at, y);
    case Smooth::silu:
      return apply(OfSilu(), n, x, step_at, y);
  }
}

void apply_with_step(Smooth function, std::int64_t n, const float* x, float step, float* y) {
  apply(
      function, n, x, [&](auto d, std::int64_t /*k*/) HWY_ATTR { return hn::Set(d, step); }, y);
}

void apply_with_steps(Smooth function, std::int64_t n, const float* x, const float* steps,
                      float* y) {
  apply(
      function, n, x, [&](auto d, std::int64_t k) HWY_ATTR { return hn::LoadU(d, steps + k); }, y);
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cinch::codecs {

HWY_EXPORT(apply_with_step);
HWY_EXPORT(apply_with_steps);

void cpu::apply_without_curvature(Smooth function, std::int64_t n, const float* x, float step,
                                  float* y) {
  HWY_DYNAMIC_DISPATCH(apply_with_step)(function, n, x, step, y);
}

void cpu::apply_without_curvature(Smooth function, std::int64_t n, const float* x,
                                  const float* steps, float* y) {
  HWY_DYNAMIC_DISPATCH(apply_with_steps)(function, n, x, steps, y);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
