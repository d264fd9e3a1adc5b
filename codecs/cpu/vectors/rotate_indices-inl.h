// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_ROTATE_INDICES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_ROTATE_INDICES_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_ROTATE_INDICES_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_ROTATE_INDICES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rotates the bits of every element's index by one, `from` being one array: moves the lowest bit
/// to the top, or the top bit to the bottom; all steps of a square give the same either way.
template <class D, class V, std::size_t n>
HWY_INLINE void rotate_indices(D d, const V (&from)[n], V (&to)[n]) {
  for (std::size_t i = 0; i < n / 2; ++i) {
    if constexpr (sizeof(hn::TFromD<D>) * n == 16) {
      to[2 * i] = hn::InterleaveLower(d, from[i], from[i + n / 2]);
      to[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + n / 2]);
    } else {
      to[i] = hn::ConcatEven(d, from[2 * i + 1], from[2 * i]);
      to[i + n / 2] = hn::ConcatOdd(d, from[2 * i + 1], from[2 * i]);
    }
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
