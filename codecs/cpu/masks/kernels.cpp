// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/masks/kernels.h"

#include <type_traits>

#include "codecs/with_pattern.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/masks/kernels.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/vectors/masks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// Writes x > 0 of `count` elements, whose bit patterns T holds. False when there is a NaN: its
/// pattern without the sign is above `infinity`.
template <typename T>
HWY_INLINE bool encode_signs_as(const void* x, std::int64_t count, std::uint64_t infinity,
                                std::byte* out) {
  const MaskTag<T> d;
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto zero = hn::Zero(d);
  auto largest = zero;
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        largest = hn::Max(largest, hn::And(bits, magnitude_mask));
        return hn::Gt(bits, zero);
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, hn::Gt(largest, hn::Set(d, static_cast<T>(infinity))));
}

/// Calls f with a null pointer to the signed integer type of `size` bytes: 2, 4 or 8.
template <class F>
HWY_INLINE auto with_signed_pattern(std::size_t size, const F& f) {
  return with_float_pattern(
      size, [&]<typename T>(T*) { return f(static_cast<std::make_signed_t<T>*>(nullptr)); });
}

bool encode_signs(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                  std::byte* out) {
  return with_signed_pattern(
      size, [&]<typename T>(T*) { return encode_signs_as<T>(x, count, infinity, out); });
}

/// Writes x > 0 of `count` elements, whose bit patterns T holds. False when one is negative.
/// `infinity` has a zero sign, and magnitudes above it are NaNs.
template <typename T>
HWY_INLINE bool encode_positives_as(const void* x, std::int64_t count, T infinity, std::byte* out) {
  const MaskTag<T> d;
  const auto zero = hn::Zero(d);
  const auto lowest = hn::Set(d, hwy::LimitsMin<T>());  // -0
  const auto top = hn::Set(d, infinity);
  const auto negative_top = hn::Or(lowest, top);  // -infinity
  // Negative numbers, as integers: above -0, and up to -infinity.
  auto negative = hn::MaskFromVec(zero);
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        negative = hn::Or(negative, hn::AndNot(hn::Gt(bits, negative_top), hn::Gt(bits, lowest)));
        return hn::AndNot(hn::Gt(bits, top), hn::Gt(bits, zero));
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, negative);
}

bool encode_positives(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                      std::byte* out) {
  return with_signed_pattern(size, [&]<typename T>(T*) {
    return encode_positives_as(x, count, static_cast<T>(infinity), out);
  });
}

/// The keys of patterns (key_order.h).
template <typename T, class V>
HWY_INLINE auto keys_of(V bits) {
  const MaskTag<T> d;
  const auto negative = hn::ShiftRight<8 * sizeof(T) - 1>(bits);
  return hn::Xor(bits, hn::And(negative, hn::Set(d, hwy::LimitsMax<T>())));
}

/// Replaces all elements but NaNs: by `vectors(mask, v)` for a vector and the mask of its bits, by
/// `scalar(bit, x)` for one element.
template <typename T, class Vectors, class Scalar>
HWY_INLINE void replace_by_bits(const std::uint8_t* HWY_RESTRICT bits, std::int64_t count,
                                T infinity, T* HWY_RESTRICT x, const Vectors& vectors,
                                const Scalar& scalar) {
  const MaskTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto top = hn::Set(d, infinity);
  std::int64_t i = 0;
  if (lanes >= 8) {
    // Highway may load 8 bytes wherever a mask begins.
    for (; i + lanes + 64 <= count; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      const auto is_nan = hn::Gt(hn::And(v, magnitude_mask), top);
      const auto replaced = vectors(hn::LoadMaskBits(d, bits + i / 8), v);
      hn::StoreU(hn::IfThenElse(is_nan, v, replaced), d, x + i);
    }
  }
  for (; i < count; ++i) {
    const bool is_nan = (x[i] & hwy::LimitsMax<T>()) > infinity;
    if (!is_nan) x[i] = scalar((bits[i / 8] >> (i % 8) & 1U) != 0, x[i]);
  }
}

template <typename T>
HWY_INLINE void zero_others_as(const std::uint8_t* HWY_RESTRICT bits, std::int64_t count,
                               T infinity, T* HWY_RESTRICT x) {
  replace_by_bits(
      bits, count, infinity, x, [](auto set, auto v) { return hn::IfThenElseZero(set, v); },
      [](bool set, T v) { return set ? v : T{0}; });
}

void zero_others(std::size_t size, const std::byte* bits, std::int64_t count,
                 std::uint64_t infinity, void* x) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bits);
  with_signed_pattern(size, [&]<typename T>(T*) {
    zero_others_as(from, count, static_cast<T>(infinity), static_cast<T*>(x));
  });
}

template <typename T>
HWY_INLINE void agree_with_signs_as(const std::uint8_t* HWY_RESTRICT bits, std::int64_t count,
                                    T infinity, T least, T* HWY_RESTRICT x) {
  const MaskTag<T> d;
  const auto zero = hn::Zero(d);
  const auto negated = static_cast<T>(least | hwy::LimitsMin<T>());
  const auto if_set = hn::Set(d, least);
  const auto if_clear = hn::Set(d, negated);
  replace_by_bits(
      bits, count, infinity, x,
      [&](auto set, auto v) {
        const auto wrong = hn::Xor(set, hn::Gt(v, zero));
        return hn::IfThenElse(wrong, hn::IfThenElse(set, if_set, if_clear), v);
      },
      [=](bool set, T v) {
        const T if_wrong = set ? least : negated;
        return set == (v > 0) ? v : if_wrong;
      });
}

void agree_with_signs(std::size_t size, const std::byte* bits, std::int64_t count,
                      std::uint64_t infinity, std::uint64_t least, void* x) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bits);
  with_signed_pattern(size, [&]<typename T>(T*) {
    agree_with_signs_as(from, count, static_cast<T>(infinity), static_cast<T>(least),
                        static_cast<T*>(x));
  });
}

template <typename T>
HWY_INLINE void agree_with_bound_as(const std::uint8_t* HWY_RESTRICT bits, std::int64_t count,
                                    T infinity, const BoundPatterns& bound, T* HWY_RESTRICT x) {
  const MaskTag<T> d;
  const auto key_of_bound = static_cast<T>(bound.key);
  const auto if_clear = static_cast<T>(bound.not_above);
  const auto if_set = static_cast<T>(bound.above);
  replace_by_bits(
      bits, count, infinity, x,
      [&](auto set, auto v) {
        const auto above = hn::Gt(keys_of<T>(v), hn::Set(d, key_of_bound));
        const auto nearest = hn::IfThenElse(set, hn::Set(d, if_set), hn::Set(d, if_clear));
        return hn::IfThenElse(hn::Xor(set, above), nearest, v);
      },
      [=](bool set, T v) {
        const T key = v < 0 ? static_cast<T>(v ^ hwy::LimitsMax<T>()) : v;
        const T nearest = set ? if_set : if_clear;
        return set == (key > key_of_bound) ? v : nearest;
      });
}

void agree_with_bound(std::size_t size, const std::byte* bits, std::int64_t count,
                      std::uint64_t infinity, const BoundPatterns& bound, void* x) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bits);
  if (size == 4) {
    agree_with_bound_as(from, count, static_cast<std::int32_t>(infinity), bound,
                        static_cast<std::int32_t*>(x));
  } else {
    agree_with_bound_as(from, count, static_cast<std::int16_t>(infinity), bound,
                        static_cast<std::int16_t*>(x));
  }
}

/// Writes whether the keys of `count` elements, whose bit patterns T holds, lie strictly between
/// those of `bounds`. False when there is a NaN: its pattern without the sign is above `infinity`.
template <typename T>
HWY_INLINE bool encode_inside_as(const void* x, std::int64_t count, const IntervalPatterns& bounds,
                                 std::uint64_t infinity, std::byte* out) {
  const MaskTag<T> d;
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto below = hn::Set(d, static_cast<T>(bounds.below));
  const auto above = hn::Set(d, static_cast<T>(bounds.above));
  auto largest = hn::Zero(d);
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        largest = hn::Max(largest, hn::And(bits, magnitude_mask));
        const auto key = keys_of<T>(bits);
        return hn::And(hn::Gt(key, below), hn::Lt(key, above));
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, hn::Gt(largest, hn::Set(d, static_cast<T>(infinity))));
}

bool encode_inside(std::size_t size, const void* x, std::int64_t count,
                   const IntervalPatterns& bounds, std::uint64_t infinity, std::byte* out) {
  return size == 4 ? encode_inside_as<std::int32_t>(x, count, bounds, infinity, out)
                   : encode_inside_as<std::int16_t>(x, count, bounds, infinity, out);
}

/// Elements between two checks for a third pattern.
inline constexpr std::int64_t kStretch = 1024;

template <typename T>
HWY_INLINE bool encode_two_as(const T* x, std::int64_t count, T first, T second,
                              std::uint8_t* out) {
  const MaskTag<T> d;
  const auto is_first = hn::Set(d, first);
  const auto is_second = hn::Set(d, second);
  for (std::int64_t i = 0; i < count; i += kStretch) {
    // Set in lanes where an element differed from both patterns.
    auto strange = hn::MaskFromVec(hn::Zero(d));
    masks(
        x + i, std::min(kStretch, count - i),
        [&](auto v) {
          const auto unlike_first = hn::Ne(v, is_first);
          const auto unlike_second = hn::Ne(v, is_second);
          strange = hn::Or(strange, hn::And(unlike_first, unlike_second));
          return unlike_first;
        },
        out + i / 8);
    if (!hn::AllFalse(d, strange)) return false;
  }
  return true;
}

/// Index of the first element that differs from `first`, or count.
template <typename T>
HWY_INLINE std::int64_t find_other_as(const T* x, std::int64_t count, T first) {
  const MaskTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if (!hn::AllTrue(d, hn::Eq(hn::LoadU(d, x + i), hn::Set(d, first)))) break;
  }
  while (i < count && x[i] == first) ++i;
  return i;
}

bool encode_two(std::size_t size, const void* x, std::int64_t count, std::uint64_t first,
                std::uint64_t second, std::byte* out) {
  return with_pattern(size, [&]<typename T>(T*) {
    return encode_two_as(static_cast<const T*>(x), count, static_cast<T>(first),
                         static_cast<T>(second), reinterpret_cast<std::uint8_t*>(out));
  });
}

std::int64_t find_other(std::size_t size, const void* x, std::int64_t count, std::uint64_t first) {
  return with_pattern(size, [&]<typename T>(T*) {
    return find_other_as(static_cast<const T*>(x), count, static_cast<T>(first));
  });
}

void select_patterns(std::size_t size, const std::byte* bits, std::int64_t count, std::uint64_t set,
                     std::uint64_t clear, void* x) {
  with_pattern(size, [&]<typename T>(T*) {
    select(reinterpret_cast<const std::uint8_t*>(bits), count, static_cast<T>(set),
           static_cast<T>(clear), static_cast<T*>(x));
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_signs);
HWY_EXPORT(encode_positives);
HWY_EXPORT(zero_others);
HWY_EXPORT(agree_with_signs);
HWY_EXPORT(agree_with_bound);
HWY_EXPORT(encode_inside);
HWY_EXPORT(encode_two);
HWY_EXPORT(find_other);
HWY_EXPORT(select_patterns);

}  // namespace

bool cpu::encode_signs(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                       std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(encode_signs)(size, x, count, infinity, out);
}

bool cpu::encode_positives(std::size_t size, const void* x, std::int64_t count,
                           std::uint64_t infinity, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(encode_positives)(size, x, count, infinity, out);
}

void cpu::zero_others(std::size_t size, const std::byte* bits, std::int64_t count,
                      std::uint64_t infinity, void* x) {
  HWY_DYNAMIC_DISPATCH(zero_others)(size, bits, count, infinity, x);
}

void cpu::agree_with_signs(std::size_t size, const std::byte* bits, std::int64_t count,
                           std::uint64_t infinity, std::uint64_t least, void* x) {
  HWY_DYNAMIC_DISPATCH(agree_with_signs)(size, bits, count, infinity, least, x);
}

void cpu::agree_with_bound(std::size_t size, const std::byte* bits, std::int64_t count,
                           std::uint64_t infinity, const BoundPatterns& bound, void* x) {
  HWY_DYNAMIC_DISPATCH(agree_with_bound)(size, bits, count, infinity, bound, x);
}

bool cpu::encode_inside(std::size_t size, const void* x, std::int64_t count,
                        const IntervalPatterns& bounds, std::uint64_t infinity, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(encode_inside)(size, x, count, bounds, infinity, out);
}

bool cpu::encode_two(std::size_t size, const void* x, std::int64_t count, std::uint64_t first,
                     std::uint64_t second, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(encode_two)(size, x, count, first, second, out);
}

std::int64_t cpu::find_other(std::size_t size, const void* x, std::int64_t count,
                             std::uint64_t first) {
  return HWY_DYNAMIC_DISPATCH(find_other)(size, x, count, first);
}

void cpu::select_patterns(std::size_t size, const std::byte* bits, std::int64_t count,
                          std::uint64_t set, std::uint64_t clear, void* x) {
  HWY_DYNAMIC_DISPATCH(select_patterns)(size, bits, count, set, clear, x);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
