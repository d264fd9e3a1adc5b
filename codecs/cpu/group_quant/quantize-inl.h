// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_QUANTIZE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_QUANTIZE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_QUANTIZE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/narrow-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// affine_code of elements of kind S, a vector of bytes at a time.
template <class S, bool kEightBits>
class GroupQuantizer {
  using DF = hn::ScalableTag<float>;
  using DI = hn::RebindToSigned<DF>;
  using DU = hn::RebindToUnsigned<DF>;
  using D16 = hn::Repartition<std::uint16_t, DF>;
  using D8 = hn::Repartition<std::uint8_t, DF>;
  using Raw = typename S::Raw;

 public:
  HWY_INLINE GroupQuantizer(float lo, float scale, int bits)
      : lo_(lo), scale_(scale), bits_(bits) {}

  /// Writes the codes of `count` elements and up to a vector beyond; reads as many draws.
  HWY_INLINE void run(const Raw* HWY_RESTRICT x, const std::uint16_t* HWY_RESTRICT draws,
                      std::int64_t count, std::uint8_t* HWY_RESTRICT codes) const {
    const D8 d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
    HWY_ALIGN Raw rest[HWY_MAX_BYTES];
    for (std::int64_t i = 0; i < count; i += lanes) {
      const Raw* from = x + i;
      if (i + lanes > count) {
        std::fill_n(rest, lanes, *from);
        std::memcpy(rest, from, (count - i) * sizeof(Raw));
        from = rest;
      }
      hn::StoreU(block(S(), from, draws + i), d8, codes + i);
    }
  }

 private:
  /// Code and fraction, in the lowest 24 bits; the other bits are undefined.
  template <class VF>
  HWY_INLINE auto fixed(VF x) const {
    const DF df;
    const auto u = hn::Mul(hn::Sub(x, hn::Set(df, lo_)), hn::Set(df, scale_));
    if constexpr (kEightBits) {
      return hn::BitCast(DU(), hn::NearestInt(hn::Min(u, hn::Set(df, 255.0F * 65536.0F))));
    } else {
      // Adding 2^23 rounds to an integer and leaves it in the sum's low bits, if it is below 2^23:
      // with 7 bits or fewer.
      return hn::BitCast(DU(), hn::Add(u, hn::Set(df, 0x1p23F)));
    }
  }

  /// Puts the codes of `even` into even 16-bit lanes and those of `odd` into odd ones.
  template <class VU>
  static HWY_INLINE auto merge(VU even, VU odd) {
    const D16 d16;
    return hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even)));
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
    const hn::Rebind<std::uint16_t, DF> half;
    const auto lanes = hn::Lanes(df);
    const auto code = [&](std::size_t i) HWY_ATTR {
      return hn::Add(fixed(hn::LoadU(df, x + i)), hn::PromoteTo(du, hn::LoadU(half, draws + i)));
    };
    return clamped(bytes_of_quarters(D16(), merge(code(0), code(lanes)),
                                     merge(code(2 * lanes), code(3 * lanes))));
  }

  template <class Half>
  HWY_INLINE auto block(Half, const std::uint16_t* HWY_RESTRICT x,
                        const std::uint16_t* HWY_RESTRICT draws) const {
    const DF df;
    const DU du;
    const D16 d16;
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
    return clamped(bytes_of_halves(d16, merge(low(0), high(0)), merge(low(lanes), high(lanes))));
  }

  float lo_;
  float scale_;
  int bits_;
};

/// Runs the GroupQuantizer for `bits`.
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
