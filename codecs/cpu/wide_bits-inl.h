// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_WIDE_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_WIDE_BITS_INL_H_
#undef CINCH_CODECS_CPU_WIDE_BITS_INL_H_
#else
#define CINCH_CODECS_CPU_WIDE_BITS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(std::endian::native == std::endian::little);

/// Four 16-bit codes a 64-bit lane, joined to 4 * bits bits.
template <class D64, class V64>
HWY_INLINE V64 join_wide(D64 d64, V64 codes, int bits) {
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto v16 = hn::BitCast(d32, codes);
  const auto v32 = hn::BitCast(d64, hn::Or(hn::And(v16, hn::Set(d32, 0xFFFF)),
                                           hn::ShiftLeftSame(hn::ShiftRight<16>(v16), bits)));
  return hn::Or(hn::And(v32, hn::Set(d64, 0xFFFFFFFFU)),
                hn::ShiftLeftSame(hn::ShiftRight<32>(v32), 2 * bits));
}

/// The way back. Bits above 4 * bits of a lane are ignored.
template <class D64, class V64>
HWY_INLINE V64 split_wide(D64 d64, V64 packed, int bits) {
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto mask32 = hn::Set(d64, (std::uint64_t{1} << (2 * bits)) - 1);
  const auto v32 = hn::BitCast(
      d32, hn::Or(hn::And(packed, mask32),
                  hn::ShiftLeft<32>(hn::And(hn::ShiftRightSame(packed, 2 * bits), mask32))));
  const auto mask16 = hn::Set(d32, (std::uint32_t{1} << bits) - 1);
  return hn::BitCast(d64,
                     hn::Or(hn::And(v32, mask16),
                            hn::ShiftLeft<16>(hn::And(hn::ShiftRightSame(v32, bits), mask16))));
}

/// Packs `count` codes of 1 to 16 bits into as many whole bytes as they need; unused bits are 0.
/// Loads up to a vector and 8 codes past the codes; those up to a multiple of 8 must be 0.
HWY_INLINE void pack_wide(int bits, const std::uint16_t* HWY_RESTRICT codes, std::int64_t count,
                          std::byte* HWY_RESTRICT out) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint16_t, decltype(d64)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  const std::int64_t size = (count * bits + 7) / 8;
  HWY_ALIGN std::uint64_t joined[HWY_MAX_BYTES / 8];
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    hn::Store(join_wide(d64, hn::BitCast(d64, hn::LoadU(d16, codes + i)), bits), d64, joined);
    for (std::int64_t j = 0; j < lanes; j += 2) {
      // Eight codes, `bits` bytes.
      const std::int64_t at = (i + 4 * j) / 8 * bits;
      if (at >= size) break;
      std::uint64_t words[2] = {joined[j] | (joined[j + 1] << (4 * bits) % 64), 0};
      if (bits > 8) {
        words[1] = joined[j + 1] >> (64 - 4 * bits);
        if (bits == 16) {
          words[0] = joined[j];
          words[1] = joined[j + 1];
        }
      }
      // What lies beyond these codes, the next ones overwrite.
      if (at + 16 <= size) {
        std::memcpy(out + at, words, 16);
      } else {
        std::memcpy(out + at, words, std::min<std::int64_t>(16, size - at));
      }
    }
  }
}

/// Unpacks `count` codes of 1 to 16 bits from the `size` bytes at `in`; what lies beyond counts as
/// 0. Stores up to a vector and 8 codes past the codes.
HWY_INLINE void unpack_wide(int bits, const std::byte* HWY_RESTRICT in, std::int64_t size,
                            std::int64_t count, std::uint16_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint16_t, decltype(d64)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  HWY_ALIGN std::uint64_t packed[HWY_MAX_BYTES / 8];
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    for (std::int64_t j = 0; j < lanes; j += 2) {
      const std::int64_t at = (i + 4 * j) / 8 * bits;
      std::uint64_t words[2] = {0, 0};
      if (at + 16 <= size) {
        std::memcpy(words, in + at, 16);
      } else if (at < size) {
        std::memcpy(words, in + at, size - at);
      }
      packed[j] = words[0];
      packed[j + 1] = bits == 16 ? words[1]
                      : bits > 8 ? words[0] >> (4 * bits) | words[1] << (64 - 4 * bits)
                                 : words[0] >> (4 * bits);
    }
    hn::StoreU(hn::BitCast(d16, split_wide(d64, hn::Load(d64, packed), bits)), d16, codes + i);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
