// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANTIZE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANTIZE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANTIZE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/element_kinds-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Indices of 32-bit lanes that put the quarters of all 16-byte blocks together: first the first
/// quarters, block by block, then the second ones, and so on.
template <class D32>
HWY_INLINE auto by_quarter(D32 d32) {
  const auto blocks = static_cast<std::uint32_t>(hn::Lanes(d32) / 4);
  const auto i = hn::Iota(d32, 0);
  const auto block = hn::And(i, hn::Set(d32, blocks - 1));
  const auto quarter = hn::ShiftRightSame(i, std::countr_zero(blocks));
  return hn::IndicesFromVec(d32, hn::Or(hn::ShiftLeft<2>(block), quarter));
}

/// The same with halves of blocks.
template <class D32>
HWY_INLINE auto by_half(D32 d32) {
  const auto blocks = static_cast<std::uint32_t>(hn::Lanes(d32) / 4);
  const auto one = hn::Set(d32, 1);
  const auto i = hn::Iota(d32, 0);
  const auto half = hn::ShiftRightSame(i, std::countr_zero(2 * blocks));
  const auto block = hn::And(hn::ShiftRight<1>(i), hn::Set(d32, blocks - 1));
  return hn::IndicesFromVec(
      d32, hn::Or(hn::Or(hn::ShiftLeft<2>(block), hn::ShiftLeft<1>(half)), hn::And(i, one)));
}

/// Codes to one byte each: bits 16 to 23 of four vectors' lanes, vector by vector.
template <class D32, class V32>
HWY_INLINE auto narrow_codes(D32 d32, V32 v0, V32 v1, V32 v2, V32 v3) {
  const hn::Repartition<std::uint16_t, D32> d16;
  const hn::Repartition<std::uint8_t, D32> d8;
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 4, 8, 12, 2, 6, 10, 14,
                                                           1, 5, 9, 13, 3, 7, 11, 15};
  const auto c01 = hn::OddEven(hn::BitCast(d16, v1), hn::BitCast(d16, hn::ShiftRight<16>(v0)));
  const auto c23 = hn::OddEven(hn::BitCast(d16, v3), hn::BitCast(d16, hn::ShiftRight<16>(v2)));
  const auto bytes = hn::Or(hn::And(c01, hn::Set(d16, 0xFF)), hn::ShiftLeft<8>(c23));
  const auto quarters = hn::TableLookupBytes(hn::BitCast(d8, bytes), hn::LoadDup128(d8, kGather));
  return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, quarters), by_quarter(d32)));
}

/// Codes to one byte each: bits 16 to 23 of the lanes of `low0` and `high0` in turns, then of the
/// others.
template <class D32, class V32>
HWY_INLINE auto narrow_paired_codes(D32 d32, V32 low0, V32 high0, V32 low1, V32 high1) {
  const hn::Repartition<std::uint16_t, D32> d16;
  const hn::Repartition<std::uint8_t, D32> d8;
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                           1, 3, 5, 7, 9, 11, 13, 15};
  const auto c0 = hn::OddEven(hn::BitCast(d16, high0), hn::BitCast(d16, hn::ShiftRight<16>(low0)));
  const auto c1 = hn::OddEven(hn::BitCast(d16, high1), hn::BitCast(d16, hn::ShiftRight<16>(low1)));
  const auto bytes = hn::Or(hn::And(c0, hn::Set(d16, 0xFF)), hn::ShiftLeft<8>(c1));
  const auto halves = hn::TableLookupBytes(hn::BitCast(d8, bytes), hn::LoadDup128(d8, kGather));
  return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, halves), by_half(d32)));
}

/// affine_code of elements of kind S, a vector of bytes at a time.
template <class S, bool kEightBits>
class GroupQuantizer {
  using DF = hn::ScalableTag<float>;
  using DI = hn::RebindToSigned<DF>;
  using DU = hn::RebindToUnsigned<DF>;
  using D8 = hn::Repartition<std::uint8_t, DF>;
  using Raw = typename S::Raw;

 public:
  HWY_INLINE GroupQuantizer(float lo, float scale, int bits)
      : lo_(lo), scale_(scale), bits_(bits) {}

  /// Codes of `count` elements; stores up to a vector beyond, and reads as many draws.
  HWY_INLINE void run(const Raw* HWY_RESTRICT x, const std::uint16_t* HWY_RESTRICT draws,
                      std::int64_t count, std::uint8_t* HWY_RESTRICT codes) const {
    const D8 d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(block(S(), x + i, draws + i), d8, codes + i);
    }
    if (i == count) return;
    HWY_ALIGN Raw rest[HWY_MAX_BYTES];
    std::fill_n(rest, lanes, x[i]);
    std::memcpy(rest, x + i, (count - i) * sizeof(Raw));
    hn::StoreU(block(S(), rest, draws + i), d8, codes + i);
  }

 private:
  /// Code and fraction, of which the lowest 24 bits count.
  template <class VF>
  HWY_INLINE auto fixed(VF x) const {
    const DF df;
    const auto u = hn::Mul(hn::Sub(x, hn::Set(df, lo_)), hn::Set(df, scale_));
    if constexpr (kEightBits) {
      return hn::BitCast(DU(), hn::NearestInt(hn::Min(u, hn::Set(df, 255.0F * 65536.0F))));
    } else {
      // Adding 2^23 rounds to an integer, which the low bits of the sum then are, as long as it is
      // below 2^23: with 7 bits or fewer.
      return hn::BitCast(DU(), hn::Add(u, hn::Set(df, 0x1p23F)));
    }
  }

  template <class V8>
  HWY_INLINE V8 clamped(V8 codes) const {
    if constexpr (kEightBits) return codes;
    return hn::Min(codes, hn::Set(D8(), static_cast<std::uint8_t>((1 << bits_) - 1)));
  }

  HWY_INLINE auto block(Float32, const float* HWY_RESTRICT x,
                        const std::uint16_t* HWY_RESTRICT draws) const {
    const DF df;
    const DU du;
    const hn::Rebind<std::uint16_t, DF> d16;
    const auto lanes = hn::Lanes(df);
    const auto code = [&](std::size_t i) HWY_ATTR {
      return hn::Add(fixed(hn::LoadU(df, x + i)), hn::PromoteTo(du, hn::LoadU(d16, draws + i)));
    };
    return clamped(narrow_codes(du, code(0), code(lanes), code(2 * lanes), code(3 * lanes)));
  }

  template <class Half>
  HWY_INLINE auto block(Half, const std::uint16_t* HWY_RESTRICT x,
                        const std::uint16_t* HWY_RESTRICT draws) const {
    const DF df;
    const DU du;
    const hn::Repartition<std::uint16_t, DF> d16;
    const auto lanes = hn::Lanes(d16);
    const auto load = [&](const std::uint16_t* from)
                          HWY_ATTR { return hn::BitCast(du, hn::LoadU(d16, from)); };
    const auto low = [&](std::size_t i) HWY_ATTR {
      return hn::Add(fixed(Half::low(df, load(x + i))),
                     hn::And(load(draws + i), hn::Set(du, 0xFFFF)));
    };
    const auto high = [&](std::size_t i) HWY_ATTR {
      return hn::Add(fixed(Half::high(df, load(x + i))), hn::ShiftRight<16>(load(draws + i)));
    };
    return clamped(narrow_paired_codes(du, low(0), high(0), low(lanes), high(lanes)));
  }

  float lo_;
  float scale_;
  int bits_;
};

/// The same for any number of bits.
template <class S>
HWY_INLINE void quantize_group(const typename S::Raw* HWY_RESTRICT x,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                               float lo, float scale, int bits, std::uint8_t* HWY_RESTRICT codes) {
  if (bits == 8) {
    GroupQuantizer<S, true>(lo, scale, bits).run(x, draws, count, codes);
  } else {
    GroupQuantizer<S, false>(lo, scale, bits).run(x, draws, count, codes);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
