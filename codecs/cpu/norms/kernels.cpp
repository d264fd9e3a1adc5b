// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/norms/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/norms/kernels.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

/// Calls `vector(j)` for whole vectors and `single(j)` for the remaining elements.
template <typename Vector, typename Single>
HWY_INLINE void for_each(std::int64_t n, Vector&& vector, Single&& single) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) vector(j);
  for (; j < n; ++j) single(j);
}

void scale_by_one(std::int64_t n, const float* x, float scale, float shift, float* y) {
  const Floats d;
  const auto scales = hn::Set(d, scale);
  const auto shifts = hn::Set(d, shift);
  for_each(
      n, [&](std::int64_t j) { hn::StoreU(hn::MulAdd(hn::LoadU(d, x + j), scales, shifts), d, y + j); },
      [&](std::int64_t j) { y[j] = std::fma(x[j], scale, shift); });
}

void scale_by_each(std::int64_t n, const float* x, const float* scale, const float* shift,
                   float* y) {
  const Floats d;
  for_each(
      n,
      [&](std::int64_t j) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, x + j), hn::LoadU(d, scale + j), hn::LoadU(d, shift + j)),
                   d, y + j);
      },
      [&](std::int64_t j) { y[j] = std::fma(x[j], scale[j], shift[j]); });
}

void normalize_row(std::int64_t n, const float* x, float mean, float rstd, const float* weight,
                   const float* bias, float* y) {
  const Floats d;
  const auto means = hn::Set(d, mean);
  const auto rstds = hn::Set(d, rstd);
  for_each(
      n,
      [&](std::int64_t j) {
        const auto normal = hn::Mul(hn::Sub(hn::LoadU(d, x + j), means), rstds);
        hn::StoreU(hn::MulAdd(normal, hn::LoadU(d, weight + j), hn::LoadU(d, bias + j)), d, y + j);
      },
      [&](std::int64_t j) { y[j] = std::fma((x[j] - mean) * rstd, weight[j], bias[j]); });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cinch::codecs {

HWY_EXPORT(scale_by_one);
HWY_EXPORT(scale_by_each);
HWY_EXPORT(normalize_row);

void cpu::scale_by_one(std::int64_t n, const float* x, float scale, float shift, float* y) {
  HWY_DYNAMIC_DISPATCH(scale_by_one)(n, x, scale, shift, y);
}

void cpu::scale_by_each(std::int64_t n, const float* x, const float* scale, const float* shift,
                        float* y) {
  HWY_DYNAMIC_DISPATCH(scale_by_each)(n, x, scale, shift, y);
}

void cpu::normalize_row(std::int64_t n, const float* x, float mean, float rstd,
                        const float* weight, const float* bias, float* y) {
  HWY_DYNAMIC_DISPATCH(normalize_row)(n, x, mean, rstd, weight, bias, y);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
