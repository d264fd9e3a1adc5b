// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/curvature/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/curvature/kernels.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// exp(-x) to within 4e-6 of it. @pre 0 <= x <= kFlat
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_negative(D d, V x) {
  // exp(-x) = 2^n 2^f with a whole n and |f| <= 1/2; 2^f by its Taylor polynomial.
  const V t = hn::Mul(x, hn::Set(d, -1.44269504F));
  const V n = hn::Round(t);
  const V f = hn::Sub(t, n);
  V p = hn::Set(d, 1.33335581e-3F);
  p = hn::MulAdd(p, f, hn::Set(d, 9.61812911e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 5.55041087e-2F));
  p = hn::MulAdd(p, f, hn::Set(d, 2.40226507e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147181e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const hn::RebindToSigned<D> ints;
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(ints, n));
  return hn::BitCast(d, hn::Add(hn::BitCast(ints, p), exponent));
}

/// Of a = |x|, with f(x) = max(x, 0) - a tail: how far f is from ReLU, and f''(x), which is even.
template <class V>
struct AtDistance {
  V tail;
  V second;
};

/// GELU's tail is the normal distribution's beyond a (Abramowitz and Stegun, 7.1.26, to 1e-7).
struct OfGelu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V a) const {
    const V square = hn::Min(hn::Mul(a, a), hn::Set(d, 2 * kFlat));
    const V bell = exp_of_negative(d, hn::Mul(square, hn::Set(d, 0.5F)));
    const V t = hn::Div(hn::Set(d, 1.0F), hn::MulAdd(a, hn::Set(d, 0.23164189F), hn::Set(d, 1.0F)));
    V p = hn::Set(d, 0.530702715F);
    p = hn::MulAdd(p, t, hn::Set(d, -0.726576014F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.710706871F));
    p = hn::MulAdd(p, t, hn::Set(d, -0.142248368F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.127414796F));
    const V density = hn::Mul(bell, hn::Set(d, 0.39894228F));
    return {hn::Mul(hn::Mul(p, t), bell), hn::Mul(density, hn::Sub(hn::Set(d, 2.0F), square))};
  }
};

/// Its tail is 1 / (1 + exp(2 u)), u what tanh is taken of; its curvature nearly GELU's.
struct OfGeluTanh {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V a) const {
    const V cubic = hn::MulAdd(hn::Mul(a, a), hn::Set(d, 0.044715F), hn::Set(d, 1.0F));
    const V twice = hn::Mul(hn::Mul(cubic, a), hn::Set(d, 2 * 0.79788456F));
    const V e = exp_of_negative(d, hn::Min(twice, hn::Set(d, kFlat)));
    return {hn::Div(e, hn::Add(hn::Set(d, 1.0F), e)), OfGelu()(d, a).second};
  }
};

struct OfSilu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE AtDistance<V> operator()(D d, V distance) const {
    const V one = hn::Set(d, 1.0F);
    const V a = hn::Min(distance, hn::Set(d, kFlat));
    const V e = exp_of_negative(d, a);
    const V r = hn::Div(one, hn::Add(one, e));
    const V tail = hn::Mul(e, r);
    const V slope = hn::Mul(hn::Mul(a, hn::Sub(one, e)), r);
    return {tail, hn::Mul(hn::Mul(tail, r), hn::Sub(hn::Set(d, 2.0F), slope))};
  }
};

template <class Function>
HWY_INLINE void apply(const Function& function, std::int64_t n, const float* x, float factor,
                      float* y) {
  const auto run = [&](auto d, std::int64_t k) HWY_ATTR {
    const auto v = hn::LoadU(d, x + k);
    const auto a = hn::Abs(v);
    const auto at = function(d, a);
    const auto f = hn::NegMulAdd(a, at.tail, hn::Max(v, hn::Zero(d)));
    hn::StoreU(hn::NegMulAdd(at.second, hn::Set(d, factor), f), d, y + k);
  };
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes) run(d, k);
  for (; k < n; ++k) run(hn::CappedTag<float, 1>(), k);
}

void apply_without_curvature(Smooth function, std::int64_t n, const float* x, float factor,
                             float* y) {
  switch (function) {
    case Smooth::gelu:
      return apply(OfGelu(), n, x, factor, y);
    case Smooth::gelu_tanh:
      return apply(OfGeluTanh(), n, x, factor, y);
    case Smooth::silu:
      return apply(OfSilu(), n, x, factor, y);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cinch::codecs {

HWY_EXPORT(apply_without_curvature);

void cpu::apply_without_curvature(Smooth function, std::int64_t n, const float* x, float factor,
                                  float* y) {
  HWY_DYNAMIC_DISPATCH(apply_without_curvature)(function, n, x, factor, y);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
