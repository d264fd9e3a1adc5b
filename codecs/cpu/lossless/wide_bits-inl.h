// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_WIDE_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_WIDE_BITS_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_WIDE_BITS_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_WIDE_BITS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

/// Bit streams of codes of 0 to 32 bits, one width for all, packed and unpacked a tile at a time.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Codes in a tile; a tile's stream is a whole number of 64-bit words.
inline constexpr std::int64_t kWideTile = 1024;
/// Bytes of a tile of 32-bit codes, and how far unpacking loads reach past a stream.
inline constexpr std::int64_t kWideTileBytes = kWideTile * 4;
inline constexpr std::int64_t kWideSlack = 16;

/// Joins neighbouring codes of `bits` bits: `count` codes become count / 2 of twice the width, in
/// place. @pre 2 * bits <= 32; codes may be read and written up to a vector past count
HWY_INLINE void join_to_32(std::uint32_t* codes, std::int64_t count, int bits) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const hn::Rebind<std::uint32_t, decltype(d64)> half;
  const auto low = hn::Set(d64, 0xFFFFFFFFU);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d32))) {
    const auto pair = hn::BitCast(d64, hn::LoadU(d32, codes + i));
    const auto joined =
        hn::Or(hn::And(pair, low), hn::ShiftLeftSame(hn::ShiftRight<32>(pair), bits));
    hn::StoreU(hn::TruncateTo(half, joined), half, codes + i / 2);
  }
}

/// The same, to 64-bit words that hold 2 * bits bits.
HWY_INLINE void join_to_64(const std::uint32_t* HWY_RESTRICT codes, std::int64_t count, int bits,
                           std::uint64_t* HWY_RESTRICT words) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const auto low = hn::Set(d64, 0xFFFFFFFFU);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d32))) {
    const auto pair = hn::BitCast(d64, hn::LoadU(d32, codes + i));
    const auto joined =
        hn::Or(hn::And(pair, low), hn::ShiftLeftSame(hn::ShiftRight<32>(pair), bits));
    hn::StoreU(joined, d64, words + i / 2);
  }
}

/// Packs `count` codes, at most a tile, into bytes_for_bits(count * bits) bytes. `codes` has room
/// for a tile; all of it may be overwritten.
/// @pre 1 <= bits <= 32, and no code needs more
HWY_INLINE void pack_wide(int bits, std::uint32_t* codes, std::int64_t count, std::byte* out) {
  HWY_ALIGN std::uint64_t words[kWideTile / 2];
  // Zeros up to a multiple of eight codes, so that the last byte's unused bits are 0.
  std::int64_t left = (count + 7) / 8 * 8;
  std::fill(codes + count, codes + left, 0U);
  int width = bits;
  for (int level = 0; level < 2 && 2 * width <= 32; ++level) {
    join_to_32(codes, left, width);
    left /= 2;
    width *= 2;
  }
  join_to_64(codes, left, width, words);
  left /= 2;
  width *= 2;

  const std::int64_t bytes = (count * bits + 7) / 8;
  std::byte* const end = out + bytes;
  std::uint64_t waiting = 0;
  int used = 0;
  for (std::int64_t i = 0; i < left; ++i) {
    waiting |= words[i] << used;
    used += width;
    if (used < 64) continue;
    if (end - out < 8) break;
    std::memcpy(out, &waiting, 8);
    out += 8;
    used -= 64;
    waiting = used == 0 ? 0 : words[i] >> (width - used);
  }
  std::memcpy(out, &waiting, end - out);
}

/// Unpacks codes of up to 25 bits, four at a time: moves their bytes to 32-bit lanes and shifts.
/// Loads reach kWideSlack past the stream.
HWY_INLINE void unpack_by_bytes(int bits, const std::uint8_t* HWY_RESTRICT in, std::int64_t count,
                                std::uint32_t* HWY_RESTRICT codes) {
  const hn::FixedTag<std::uint8_t, 16> d8;
  const hn::FixedTag<std::uint32_t, 4> d32;
  // Of eight codes, the second four may start in the middle of a byte.
  const int second = bits / 2;
  HWY_ALIGN std::uint8_t bytes[2][16];
  HWY_ALIGN std::uint32_t shifts[2][4];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      const int bit = half * (4 * bits % 8) + i * bits;
      shifts[half][i] = bit % 8;
      for (int b = 0; b < 4; ++b) bytes[half][4 * i + b] = static_cast<std::uint8_t>(bit / 8 + b);
    }
  }
  const auto bytes0 = hn::Load(d8, bytes[0]);
  const auto bytes1 = hn::Load(d8, bytes[1]);
  const auto shifts0 = hn::Load(d32, shifts[0]);
  const auto shifts1 = hn::Load(d32, shifts[1]);
  const auto mask = hn::Set(d32, static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1));
  const auto four = [&](const std::uint8_t* from, auto places, auto by) HWY_ATTR {
    const auto lanes = hn::BitCast(d32, hn::TableLookupBytes(hn::LoadU(d8, from), places));
    return hn::And(hn::Shr(lanes, by), mask);
  };
  for (std::int64_t i = 0; i < count; i += 8, in += bits) {
    hn::StoreU(four(in, bytes0, shifts0), d32, codes + i);
    hn::StoreU(four(in + second, bytes1, shifts1), d32, codes + i + 4);
  }
}

/// Unpacks `count` codes, at most a tile, from `in`, of which `size` bytes are readable. `codes`
/// has room for a tile. @pre 1 <= bits <= 32, size >= bytes_for_bits(count * bits)
HWY_INLINE void unpack_wide(int bits, const std::byte* in, std::int64_t size, std::int64_t count,
                            std::uint32_t* codes) {
  std::byte room[kWideTileBytes + kWideSlack];
  const std::int64_t bytes = (count * bits + 7) / 8;
  const std::int64_t rounded = (count + 7) / 8 * bits;
  if (size < rounded + kWideSlack) {
    std::memcpy(room, in, bytes);
    std::memset(room + bytes, 0, rounded + kWideSlack - bytes);
    in = room;
  }
  if (bits <= 25) {
    unpack_by_bytes(bits, reinterpret_cast<const std::uint8_t*>(in), count, codes);
    return;
  }
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t word;
    std::memcpy(&word, in + i * bits / 8, 8);
    codes[i] = static_cast<std::uint32_t>(word >> (i * bits % 8) & mask);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
