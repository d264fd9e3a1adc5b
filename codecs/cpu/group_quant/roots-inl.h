// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ROOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ROOTS_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ROOTS_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ROOTS_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

#include "codecs/cpu/group_quant/dithered-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/group_quant.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// rooted() of n elements of kind S; `roots` may hold them.
template <class S>
HWY_NOINLINE void root_all(const typename S::Raw* x, std::int64_t n, float* roots) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto limit = hn::Set(df, kAffineMaxMagnitude);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = S::load(df, x + i);
    const auto root = hn::Sqrt(hn::Max(v, hn::Zero(df)));
    hn::StoreU(hn::IfThenElse(hn::Le(hn::Abs(v), limit), root, v), df, roots + i);
  }
  for (; i < n; ++i) roots[i] = rooted(S::value(std::bit_cast<typename S::Bits>(x[i])));
}

/// rooted() of `count` elements of kind S; null when memory ran out.
template <class S>
const float* rooted_elements(const std::byte* x, std::int64_t count, cpu::Buffer& room) {
  auto* const roots = room.get<float>(count);
  if (roots == nullptr) return nullptr;
  const auto* const elements = reinterpret_cast<const typename S::Raw*>(x);
  if constexpr (std::is_same_v<S, Float64>) {
    narrow_doubles(elements, count, roots);
    root_all<Float32>(roots, count, roots);
  } else {
    root_all<S>(elements, count, roots);
  }
  return roots;
}

/// squared_root of what DitheredValues makes of codes and draws.
class SquaredRoots {
 public:
  HWY_INLINE SquaredRoots(float lo, float step)
      : root_(lo, step), bias_(step * step * (1.0F / 12.0F)) {}

  template <class DF, class VI>
  HWY_INLINE hn::Vec<DF> operator()(DF df, VI code, VI draw) const {
    const auto root = root_(df, code, draw);
    return hn::Sub(hn::Mul(root, root), hn::Set(df, bias_));
  }

 private:
  DitheredValues root_;
  float bias_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
