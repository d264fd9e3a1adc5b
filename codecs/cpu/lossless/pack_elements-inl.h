// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_PACK_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_PACK_ELEMENTS_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_PACK_ELEMENTS_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_PACK_ELEMENTS_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

/// What describing, writing and reading a block of exponent_pack do with elements. T is the
/// unsigned integer of an element's bits.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
inline constexpr int kBits = 8 * sizeof(T);

template <typename T>
HWY_INLINE std::uint8_t top_of(T x) {
  return static_cast<std::uint8_t>(x >> (kBits<T> - 9));
}

/// The type of half of T's bits.
template <typename T>
using Half = std::conditional_t<sizeof(T) == 8, std::uint32_t,
                                std::conditional_t<sizeof(T) == 4, std::uint16_t, std::uint8_t>>;

/// Halves the lanes of vectors until bytes are left, which are the upper ones and returned. Calls
/// f(lower halves, how many vectors of them came before) on the way, widest first, and parts what
/// g(two upper bytes) returns in their place.
/// @param x as many vectors as a lane has bytes, so that one is left
template <class D, int kVectors, class F, class G>
HWY_INLINE hn::Vec<hn::Repartition<std::uint8_t, D>> halve(D d, const hn::Vec<D> (&x)[kVectors],
                                                           const F& f, const G& g) {
  if constexpr (kVectors == 1) {
    return x[0];
  } else {
    const hn::Repartition<Half<hn::TFromD<D>>, D> half;
    const auto changed = [&](hn::Vec<D> v) HWY_ATTR {
      if constexpr (kVectors == 2) v = g(d, v);
      return hn::BitCast(half, v);
    };
    hn::Vec<decltype(half)> upper[kVectors / 2];
    for (int i = 0; i < kVectors / 2; ++i) {
      const auto first = changed(x[2 * i]);
      const auto second = changed(x[2 * i + 1]);
      f(half, hn::ConcatEven(half, second, first), i);
      upper[i] = hn::ConcatOdd(half, second, first);
    }
    return halve(half, upper, f, g);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
