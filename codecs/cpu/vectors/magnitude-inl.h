// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_MAGNITUDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_MAGNITUDE_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_MAGNITUDE_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_MAGNITUDE_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/affine.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/element_bits.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The largest of f(bit patterns) over `count` elements, as integers of type T.
template <class T, class F>
HWY_INLINE T largest_of(const void* x, std::int64_t count, const F& f) {
  const hn::ScalableTag<T> d;
  const auto* const bits = static_cast<const T*>(x);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto most0 = hn::Zero(d), most1 = most0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    most0 = hn::Max(most0, f(d, hn::LoadU(d, bits + i)));
    most1 = hn::Max(most1, f(d, hn::LoadU(d, bits + i + lanes)));
  }
  if (i < count) {
    HWY_ALIGN T rest[2 * HWY_MAX_BYTES / sizeof(T)] = {};
    std::memcpy(rest, bits + i, (count - i) * sizeof(T));
    most0 = hn::Max(most0, f(d, hn::Load(d, rest)));
    most1 = hn::Max(most1, f(d, hn::Load(d, rest + lanes)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(most0, most1)));
}

/// Whether no element is NaN, infinite or larger than kAffineMaxMagnitude.
template <class S>
HWY_NOINLINE bool all_finite(S, const void* x, std::int64_t count) {
  using T = std::make_signed_t<typename S::Bits>;
  // As integers, infinities and NaNs are the largest of all.
  constexpr auto kMask = static_cast<T>(static_cast<typename S::Bits>(-1) >> 1);
  const T most = largest_of<T>(
      x, count, [&](auto d, auto bits) HWY_ATTR { return hn::And(bits, hn::Set(d, kMask)); });
  if constexpr (S::kType == ElementType::float16) {
    return most < static_cast<T>(bits_of_infinity(S::kType));
  } else {
    return most <= static_cast<T>(float_bits(kAffineMaxMagnitude) >> (32 - 8 * sizeof(T)));
  }
}

/// Whether an element is below 0, or a NaN that has its sign set.
template <class S>
HWY_NOINLINE bool any_negative(S, const void* x, std::int64_t count) {
  using T = typename S::Bits;
  constexpr auto kMinusZero = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  return largest_of<T>(x, count, [](auto, auto bits) HWY_ATTR { return bits; }) > kMinusZero;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
