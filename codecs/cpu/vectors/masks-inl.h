// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_MASKS_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_MASKS_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_MASKS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements per step, which make 8 bytes of mask. Highway stores and loads any vector's mask within
/// 8 bytes.
inline constexpr std::int64_t kMaskElements = 64;

/// At most 64 lanes, so that a mask has at most 8 bytes.
template <typename T>
using MaskTag = hn::CappedTag<T, kMaskElements>;

/// Writes f(vector) for the 64 elements at `x` as 64 bits, lowest first.
template <typename T, class F>
HWY_INLINE void mask_of_64(const T* HWY_RESTRICT x, const F& f, std::uint8_t* HWY_RESTRICT bits) {
  const MaskTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::uint8_t some[8];
  if (lanes >= 8) {
    std::uint8_t room[16];
    for (std::size_t i = 0; i < kMaskElements; i += lanes) {
      hn::StoreMaskBits(d, f(hn::LoadU(d, x + i)), room + i / 8);
    }
    std::memcpy(bits, room, 8);
    return;
  }
  for (std::size_t byte = 0; byte < 8; ++byte) {
    unsigned joined = 0;
    for (std::size_t i = 0; i < 8; i += lanes) {
      hn::StoreMaskBits(d, f(hn::LoadU(d, x + byte * 8 + i)), some);
      joined |= static_cast<unsigned>(some[0]) << i;
    }
    bits[byte] = static_cast<std::uint8_t>(joined);
  }
}

/// Writes f's result for `count` elements, one bit each, into whole bytes; unused bits are 0.
template <typename T, class F>
HWY_INLINE void masks(const T* HWY_RESTRICT x, std::int64_t count, const F& f,
                      std::uint8_t* HWY_RESTRICT out) {
  std::int64_t i = 0;
  for (; i + kMaskElements <= count; i += kMaskElements) mask_of_64(x + i, f, out + i / 8);
  if (i == count) return;
  // The rest is padded with the last element; the padding's bits are then cleared.
  T rest[kMaskElements];
  std::fill_n(rest, kMaskElements, x[count - 1]);
  std::memcpy(rest, x + i, (count - i) * sizeof(T));
  std::uint8_t bits[8];
  mask_of_64(rest, f, bits);
  const std::int64_t bytes = (count - i + 7) / 8;
  if (count % 8 != 0) bits[bytes - 1] &= static_cast<std::uint8_t>((1 << (count % 8)) - 1);
  std::memcpy(out + i / 8, bits, bytes);
}

/// Writes `set` or `clear` for each of 64 bits. 16 bytes are readable at `bits`.
template <typename T>
HWY_INLINE void select_64(const std::uint8_t* HWY_RESTRICT bits, T set, T clear,
                          T* HWY_RESTRICT x) {
  const MaskTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto if_set = hn::Set(d, set);
  const auto if_clear = hn::Set(d, clear);
  for (std::size_t i = 0; i < kMaskElements; i += lanes) {
    const std::uint8_t* from = bits + i / 8;
    std::uint8_t some[8] = {};
    if (lanes < 8) {
      some[0] = static_cast<std::uint8_t>(*from >> (i % 8));
      from = some;
    }
    hn::StoreU(hn::IfThenElse(hn::LoadMaskBits(d, from), if_set, if_clear), d, x + i);
  }
}

/// Writes `set` or `clear` for each of `count` bits.
template <typename T>
HWY_INLINE void select(const std::uint8_t* HWY_RESTRICT in, std::int64_t count, T set, T clear,
                       T* HWY_RESTRICT x) {
  std::int64_t i = 0;
  // Highway may load 8 bytes wherever a mask begins.
  for (; i + 2 * kMaskElements <= count; i += kMaskElements)
    select_64(in + i / 8, set, clear, x + i);
  while (i < count) {
    const std::int64_t some = std::min(kMaskElements, count - i);
    std::uint8_t bits[16] = {};
    std::memcpy(bits, in + i / 8, (some + 7) / 8);
    T rest[kMaskElements];
    select_64(bits, set, clear, rest);
    std::memcpy(x + i, rest, some * sizeof(T));
    i += some;
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
