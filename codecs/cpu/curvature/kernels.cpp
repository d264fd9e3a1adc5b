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

struct OfGelu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    const V square = hn::Min(hn::Mul(x, x), hn::Set(d, 2 * kFlat));
    const V density =
        hn::Mul(hn::Set(d, 0.39894228F), exp_of_negative(d, hn::Mul(square, hn::Set(d, 0.5F))));
    return hn::Mul(density, hn::Sub(hn::Set(d, 2.0F), square));
  }
};

struct OfSilu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1.0F);
    const V a = hn::Min(hn::Abs(x), hn::Set(d, kFlat));
    const V e = exp_of_negative(d, a);
    const V r = hn::Div(one, hn::Add(one, e));
    const V slope = hn::Mul(hn::Mul(a, hn::Sub(one, e)), r);
    return hn::Mul(hn::Mul(hn::Mul(e, r), r), hn::Sub(hn::Set(d, 2.0F), slope));
  }
};

template <class SecondDerivative>
HWY_INLINE void subtract_by(const SecondDerivative& of, std::int64_t n, const float* x,
                            float factor, float* y) {
  const auto run = [&](auto d, std::int64_t k) {
    const auto bias = of(d, hn::LoadU(d, x + k));
    hn::StoreU(hn::NegMulAdd(bias, hn::Set(d, factor), hn::LoadU(d, y + k)), d, y + k);
  };
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes) run(d, k);
  for (; k < n; ++k) run(hn::CappedTag<float, 1>(), k);
}

void subtract_curvature(Smooth function, std::int64_t n, const float* x, float factor, float* y) {
  if (function == Smooth::gelu) {
    subtract_by(OfGelu(), n, x, factor, y);
  } else {
    subtract_by(OfSilu(), n, x, factor, y);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cinch::codecs {

HWY_EXPORT(subtract_curvature);

void cpu::subtract_curvature(Smooth function, std::int64_t n, const float* x, float factor,
                             float* y) {
  HWY_DYNAMIC_DISPATCH(subtract_curvature)(function, n, x, factor, y);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
