// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_PACK_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_PACK_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/vectors/bits-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Implements bits-inl.h.

/// Eight codes, one a byte, are one 64-bit lane here, and Q bytes once packed. Neighbours are
/// joined in three steps: pairs to 2Q bits in 16, to 4Q in 32, to 8Q in 64. Bits above 8Q of the
/// result are noise.
template <int Q, class D64, class V64>
HWY_INLINE V64 join_codes(D64 d64, V64 codes) {
  const hn::Repartition<std::uint16_t, D64> d16;
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto v8 = hn::BitCast(d16, codes);
  if constexpr (Q <= 4) {
    // The upper code's new place is free of the lower code's bits.
    const auto mask16 = hn::Set(d16, static_cast<std::uint16_t>((1U << (2 * Q)) - 1));
    const auto v16 = hn::BitCast(d32, hn::And(hn::Or(v8, hn::ShiftRight<8 - Q>(v8)), mask16));
    const auto mask32 = hn::Set(d32, (std::uint32_t{1} << (4 * Q)) - 1);
    const auto v32 =
        hn::BitCast(d64, hn::And(hn::Or(v16, hn::ShiftRight<16 - 2 * Q>(v16)), mask32));
    return hn::Or(v32, hn::ShiftRight<32 - 4 * Q>(v32));
  } else {
    const auto v16 = hn::BitCast(
        d32, hn::Or(hn::And(v8, hn::Set(d16, 0xFF)), hn::ShiftLeft<Q>(hn::ShiftRight<8>(v8))));
    const auto v32 = hn::BitCast(d64, hn::Or(hn::And(v16, hn::Set(d32, 0xFFFF)),
                                             hn::ShiftLeft<2 * Q>(hn::ShiftRight<16>(v16))));
    return hn::Or(hn::And(v32, hn::Set(d64, 0xFFFFFFFFU)),
                  hn::ShiftLeft<4 * Q>(hn::ShiftRight<32>(v32)));
  }
}

/// The inverse of join_codes. Ignores bits above 8Q of a lane.
template <int Q, class D64, class V64>
HWY_INLINE V64 split_codes(D64 d64, V64 packed) {
  const hn::Repartition<std::uint16_t, D64> d16;
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto v32 = [&] {
    const auto low = hn::Set(d64, (std::uint64_t{1} << (4 * Q)) - 1);
    return hn::BitCast(d32, hn::Or(hn::And(packed, low),
                                   hn::ShiftLeft<32>(hn::And(hn::ShiftRight<4 * Q>(packed), low))));
  }();
  const auto v16 = [&] {
    if constexpr (Q <= 4) {
      const auto mask = hn::Set(d32, ((1U << (2 * Q)) - 1) * 0x10001U);
      return hn::BitCast(d16, hn::And(hn::Or(v32, hn::ShiftLeft<16 - 2 * Q>(v32)), mask));
    } else {
      const auto low = hn::Set(d32, (std::uint32_t{1} << (2 * Q)) - 1);
      return hn::BitCast(d16,
                         hn::Or(hn::And(v32, low), hn::ShiftLeft<16>(hn::ShiftRight<2 * Q>(v32))));
    }
  }();
  if constexpr (Q <= 4) {
    const auto mask = hn::Set(d16, static_cast<std::uint16_t>(((1U << Q) - 1) * 0x101U));
    return hn::BitCast(d64, hn::And(hn::Or(v16, hn::ShiftLeft<8 - Q>(v16)), mask));
  } else {
    const auto low = hn::Set(d16, static_cast<std::uint16_t>((1 << Q) - 1));
    return hn::BitCast(d64, hn::Or(hn::And(v16, low), hn::ShiftLeft<8>(hn::ShiftRight<Q>(v16))));
  }
}

/// Type whose size is Q bytes, where there is one.
template <int Q>
using Packed = std::conditional_t<Q == 1, std::uint8_t,
                                  std::conditional_t<Q == 2, std::uint16_t, std::uint32_t>>;

/// Shuffles that move the Q low bytes of two 64-bit lanes next to each other, and back from a
/// vector of such bytes.
template <int Q>
struct ByteMoves {
  /// In each 16-byte block: the bytes of both lanes to the front.
  alignas(16) std::uint8_t join[16] = {};
  /// In a vector: to each block, the 32-bit words that hold its bytes.
  HWY_ALIGN std::int32_t words[HWY_MAX_BYTES / 4] = {};
  /// Then in each block: bytes to their lanes.
  HWY_ALIGN std::uint8_t split[HWY_MAX_BYTES] = {};

  constexpr ByteMoves() {
    for (int i = 0; i < 2 * Q; ++i) join[i] = static_cast<std::uint8_t>(i / Q * 8 + i % Q);
    for (int i = 0; i < HWY_MAX_BYTES / 4; ++i) words[i] = i / 4 * 2 * Q / 4 + i % 4;
    for (int i = 0; i < HWY_MAX_BYTES; ++i) {
      const int in_word = i / 16 * 2 * Q % 4;
      split[i] = static_cast<std::uint8_t>(i % 8 < Q ? in_word + i % 16 / 8 * Q + i % 8 : 0);
    }
  }
};
template <int Q>
inline constexpr ByteMoves<Q> kByteMoves;

/// Packs 8 * groups codes of Q bits into groups * Q bytes. Loads up to a vector past the codes.
template <int Q>
void pack_groups(const std::uint8_t* HWY_RESTRICT codes, std::int64_t groups,
                 std::byte* HWY_RESTRICT out) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint8_t, decltype(d64)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  HWY_ALIGN std::uint8_t rest[HWY_MAX_BYTES];
  for (std::int64_t g = 0; g < groups; g += lanes) {
    const auto joined = join_codes<Q>(d64, hn::BitCast(d64, hn::LoadU(d8, codes + g * 8)));
    if constexpr (Q == 1 || Q == 2 || Q == 4) {
      if (g + lanes <= groups) {
        const hn::Rebind<Packed<Q>, decltype(d64)> narrow;
        hn::StoreU(hn::TruncateTo(narrow, joined), narrow,
                   reinterpret_cast<Packed<Q>*>(out + g * Q));
        continue;
      }
    }
    hn::Store(hn::TableLookupBytes(hn::BitCast(d8, joined), hn::LoadDup128(d8, kByteMoves<Q>.join)),
              d8, rest);
    const std::int64_t left = (groups - g) * Q;
    std::byte* const to = out + g * Q;
    if (left >= lanes * Q + 16) {
      // Sixteen bytes at once: the next lanes' bytes overwrite the surplus.
      for (std::int64_t i = 0; i < lanes; i += 2) std::memcpy(to + i * Q, rest + i * 8, 16);
    } else {
      for (std::int64_t i = 0; i < lanes && i * Q < left; i += 2) {
        std::memcpy(to + i * Q, rest + i * 8, std::min<std::int64_t>(2 * Q, left - i * Q));
      }
    }
  }
}

/// Unpacks groups of eight codes from `in`, of which `size` bytes are readable; bytes beyond count
/// as 0. Stores up to a vector past the codes.
template <int Q>
void unpack_groups(const std::byte* HWY_RESTRICT in, std::int64_t size, std::int64_t groups,
                   std::uint8_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint8_t, decltype(d64)> d8;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  constexpr bool kNarrow = Q == 1 || Q == 2 || Q == 4;
  const std::int64_t loads = kNarrow ? lanes * Q : lanes * 8;
  const auto words = hn::SetTableIndices(d32, kByteMoves<Q>.words);
  const auto split = hn::Load(d8, kByteMoves<Q>.split);
  HWY_ALIGN std::uint8_t rest[HWY_MAX_BYTES];
  for (std::int64_t g = 0; g < groups; g += lanes) {
    const std::int64_t at = g * Q;
    const auto* from = reinterpret_cast<const std::uint8_t*>(in) + at;
    if (at + loads > size) {
      std::memset(rest, 0, sizeof rest);
      if (at < size) std::memcpy(rest, from, std::min(lanes * Q, size - at));
      from = rest;
    }
    auto packed = hn::Zero(d64);
    if constexpr (kNarrow) {
      const hn::Rebind<Packed<Q>, decltype(d64)> narrow;
      const auto loaded = hn::LoadU(narrow, reinterpret_cast<const Packed<Q>*>(from));
      if constexpr (Q == 4) {
        packed = hn::PromoteTo(d64, loaded);
      } else {
        const hn::Rebind<std::uint32_t, decltype(d64)> wider;
        packed = hn::PromoteTo(d64, hn::PromoteTo(wider, loaded));
      }
    } else {
      const auto blocks = hn::TableLookupLanes(hn::BitCast(d32, hn::LoadU(d8, from)), words);
      packed = hn::BitCast(d64, hn::TableLookupBytes(hn::BitCast(d8, blocks), split));
    }
    hn::StoreU(hn::BitCast(d8, split_codes<Q>(d64, packed)), d8, codes + g * 8);
  }
}

/// Calls f with std::integral_constant<int, bits>. @pre 1 <= bits <= 7
template <class F>
HWY_INLINE void with_bits(int bits, const F& f) {
  switch (bits) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 5:
      return f(std::integral_constant<int, 5>());
    case 6:
      return f(std::integral_constant<int, 6>());
    default:
      return f(std::integral_constant<int, 7>());
  }
}

void pack_codes(int bits, const std::uint8_t* codes, std::int64_t groups, std::byte* out) {
  if (bits == 8) {
    std::memcpy(out, codes, groups * 8);
    return;
  }
  with_bits(bits, [&](auto q) { pack_groups<q.value>(codes, groups, out); });
}

const std::uint8_t* unpack_codes(int bits, const std::byte* in, std::int64_t size,
                                 std::int64_t begin, std::int64_t count, std::uint8_t* buffer) {
  const std::int64_t skipped = begin % 8;
  const std::int64_t groups = (skipped + count + 7) / 8;
  const std::int64_t offset = begin / 8 * bits;
  if (bits == 8) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(in) + begin;
    if (begin + count + lanes <= size) return codes;
    std::memcpy(buffer, codes, count);
    return buffer;
  }
  with_bits(bits,
            [&](auto q) { unpack_groups<q.value>(in + offset, size - offset, groups, buffer); });
  return buffer + skipped;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
