// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_WIDE_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_WIDE_CODES_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_WIDE_CODES_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_WIDE_CODES_INL_H_
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

/// Joins the four 16-bit codes of a 64-bit lane to 4 * bits bits.
template <class D64, class V64>
HWY_INLINE V64 join_wide(D64 d64, V64 codes, int bits) {
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto v16 = hn::BitCast(d32, codes);
  const auto v32 = hn::BitCast(d64, hn::Or(hn::And(v16, hn::Set(d32, 0xFFFF)),
                                           hn::ShiftLeftSame(hn::ShiftRight<16>(v16), bits)));
  return hn::Or(hn::And(v32, hn::Set(d64, 0xFFFFFFFFU)),
                hn::ShiftLeftSame(hn::ShiftRight<32>(v32), 2 * bits));
}

/// The inverse of join_wide. Ignores bits above 4 * bits of a lane.
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
/// Loads up to a vector and 8 codes past the codes. @pre codes up to a multiple of 8 are 0
inline HWY_NOINLINE void pack_wide(int bits, const std::uint16_t* HWY_RESTRICT codes,
                                   std::int64_t count, std::byte* HWY_RESTRICT out) {
  if (bits == 16) {
    std::memcpy(out, codes, static_cast<std::size_t>(2 * count));
    return;
  }
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint16_t, decltype(d64)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  const std::int64_t size = (count * bits + 7) / 8;
  HWY_ALIGN std::byte packed[HWY_MAX_BYTES];
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    const auto joined = join_wide(d64, hn::BitCast(d64, hn::LoadU(d16, codes + i)), bits);
    // Two lanes hold eight codes; the even one gets their first 64 bits.
    const auto second = hn::DupOdd(joined);
    const auto first = hn::Or(joined, hn::ShiftLeftSame(second, 4 * bits));
    const auto pairs = hn::OddEven(hn::ShiftRightSame(second, 64 - 4 * bits), first);
    hn::Store(pairs, d64, reinterpret_cast<std::uint64_t*>(packed));
    const std::int64_t at = i / 8 * bits;
    // Bytes beyond eight codes are overwritten by the next ones.
    if (at + (lanes / 2 - 1) * bits + 16 <= size) {
      for (std::int64_t j = 0; j < lanes / 2; ++j) {
        std::memcpy(out + at + j * bits, packed + 16 * j, 16);
      }
      continue;
    }
    for (std::int64_t j = 0; j < lanes / 2 && at + j * bits < size; ++j) {
      const std::int64_t some = std::min<std::int64_t>(bits, size - at - j * bits);
      std::memcpy(out + at + j * bits, packed + 16 * j, static_cast<std::size_t>(some));
    }
  }
}

/// Unpacks `count` codes of 1 to 16 bits from the `size` bytes at `in`; bytes beyond count as 0.
/// Stores up to a vector and 8 codes past the codes.
inline HWY_NOINLINE void unpack_wide(int bits, const std::byte* HWY_RESTRICT in, std::int64_t size,
                                     std::int64_t count, std::uint16_t* HWY_RESTRICT codes) {
  if (bits == 16) {
    std::memcpy(codes, in, static_cast<std::size_t>(std::min(2 * count, size)));
    return;
  }
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint16_t, decltype(d64)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  // Copy eight packed codes at a time to the 16 bytes that they will fill, all before the first
  // vector is loaded, so that a vector's parts have long been stored by then.
  auto* const spread = reinterpret_cast<std::byte*>(codes);
  const std::int64_t groups = (count + 7) / 8;
  std::int64_t g = 0;
  for (; g < groups && g * bits + 16 <= size; ++g) std::memcpy(spread + 16 * g, in + g * bits, 16);
  for (; g < groups; ++g) {
    std::memset(spread + 16 * g, 0, 16);
    if (g * bits < size) {
      std::memcpy(spread + 16 * g, in + g * bits, static_cast<std::size_t>(size - g * bits));
    }
  }
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    const auto pairs = hn::BitCast(d64, hn::LoadU(d16, codes + i));
    const auto second = hn::Or(hn::ShiftRightSame(hn::DupEven(pairs), 4 * bits),
                               hn::ShiftLeftSame(pairs, 64 - 4 * bits));
    const auto packed = hn::OddEven(second, pairs);
    hn::StoreU(hn::BitCast(d16, split_wide(d64, packed, bits)), d16, codes + i);
  }
}

/// Writes codes a few at a time, at any bit.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  /// Writes the first `count` of up to eight codes of 1 to 16 bits. @pre the others are 0, and 16
  /// bytes are writable from where the stream ends
  template <class V>
  HWY_INLINE void put(int bits, V codes, int count) {
    const hn::FixedTag<std::uint64_t, 2> d64;
    const auto joined = join_wide(d64, hn::BitCast(d64, codes), bits);
    const std::uint64_t first = hn::GetLane(joined);
    const std::uint64_t second = hn::ExtractLane(joined, 1);
    // The codes as 128 bits; the waiting bits go below them.
    const std::uint64_t low = bits == 16 ? first : first | second << 4 * bits;
    const std::uint64_t high = bits == 16 ? second : second >> (64 - 4 * bits);
    const std::uint64_t words[2] = {rest_ | low << rest_bits_,
                                    high << rest_bits_ | low >> 1 >> (63 - rest_bits_)};
    std::memcpy(out_, &words[0], 8);
    std::memcpy(out_ + 8, &words[1], 8);
    const int end = rest_bits_ + count * bits;
    rest_bits_ = end % 8;
    // Nothing waits at a byte's end, where both words may be used up.
    rest_ = rest_bits_ == 0 ? 0 : words[end / 64] >> (end % 64 - rest_bits_);
    out_ += end / 8;
  }

  /// The stream's end, rounded up to a whole byte.
  std::byte* end() const { return out_ + (rest_bits_ != 0); }

 private:
  std::byte* out_;
  std::uint64_t rest_ = 0;
  int rest_bits_ = 0;
};

/// The eight codes of 1 to 16 bits from bit `at` of `in` on, zero-extended to 16 bits. @pre 16
/// bytes are readable from byte at / 8 on; `at` is a multiple of 8 if bits is 16
HWY_INLINE hn::Vec<hn::FixedTag<std::uint16_t, 8>> eight_codes(int bits, const std::byte* in,
                                                               std::int64_t at) {
  const hn::FixedTag<std::uint64_t, 2> d64;
  const hn::FixedTag<std::uint16_t, 8> d16;
  const auto bytes = hn::LoadU(d64, reinterpret_cast<const std::uint64_t*>(in + at / 8));
  if (bits == 16) return hn::BitCast(d16, bytes);
  // All 128 bits to the right by less than a byte, then the upper four codes to the upper lane.
  const int shift = static_cast<int>(at % 8);
  const auto upper = hn::DupOdd(bytes);
  const auto low = hn::Or(hn::ShiftRightSame(bytes, shift),
                          shift == 0 ? hn::Zero(d64) : hn::ShiftLeftSame(upper, 64 - shift));
  const auto high = hn::ShiftRightSame(upper, shift);
  const auto second =
      hn::Or(hn::ShiftRightSame(low, 4 * bits), hn::ShiftLeftSame(high, 64 - 4 * bits));
  const auto packed = hn::InterleaveLower(d64, low, second);
  return hn::BitCast(d16, split_wide(d64, packed, bits));
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
