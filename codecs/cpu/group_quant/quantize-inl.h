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

#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/narrow-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Turns elements of kind S into codes, a vector of bytes at a time.
template <class S>
class CodeBlocks {
  using DF = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<DF>;
  using D16 = hn::Repartition<std::uint16_t, DF>;
  using D8 = hn::Repartition<std::uint8_t, DF>;
  using Raw = typename S::Raw;

 public:
  /// Writes the codes of `count` elements and up to a vector beyond. Reads as many draws, and up to
  /// `readable` elements, at least `count`.
  /// @param code code(x, draw, i) of vectors of elements, as floats, and of their draws; the code
  /// is in bits 16 to 23 of each lane of the result, and bits above are ignored. Float32's elements
  /// are those from i on; 16-bit ones are every second one.
  /// @param finish finish(codes) is what becomes of a vector of codes
  template <class Code, class Finish>
  static HWY_INLINE void write(const Raw* HWY_RESTRICT x, const std::uint16_t* HWY_RESTRICT draws,
                               std::int64_t count, std::int64_t readable,
                               std::uint8_t* HWY_RESTRICT codes, const Code& code,
                               const Finish& finish) {
    const D8 d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
    HWY_ALIGN Raw rest[HWY_MAX_BYTES];
    for (std::int64_t i = 0; i < count; i += lanes) {
      const Raw* from = x + i;
      if (i + lanes > readable) {
        std::fill_n(rest, lanes, *from);
        std::memcpy(rest, from, (count - i) * sizeof(Raw));
        from = rest;
      }
      hn::StoreU(finish(block(S(), from, draws + i, i, code)), d8, codes + i);
    }
  }

 private:
  /// Puts the codes of `even` into even 16-bit lanes and those of `odd` into odd ones.
  template <class VU>
  static HWY_INLINE auto merge(VU even, VU odd) {
    const D16 d16;
    return hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even)));
  }

  template <class Code>
  static HWY_INLINE auto block(Float32, const float* HWY_RESTRICT x,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t first,
                               const Code& code) {
    const DF df;
    const DU du;
    const hn::Rebind<std::uint16_t, DF> half;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const auto at = [&](std::int64_t i) HWY_ATTR {
      return code(hn::LoadU(df, x + i), hn::PromoteTo(du, hn::LoadU(half, draws + i)), first + i);
    };
    return bytes_of_quarters(D16(), merge(at(0), at(lanes)), merge(at(2 * lanes), at(3 * lanes)));
  }

  template <class Half, class Code>
  static HWY_INLINE auto block(Half, const std::uint16_t* HWY_RESTRICT x,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t first,
                               const Code& code) {
    const DF df;
    const DU du;
    const D16 d16;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d16));
    const auto load = [&](const std::uint16_t* from)
                          HWY_ATTR { return hn::BitCast(du, hn::LoadU(d16, from)); };
    const auto low = [&](std::int64_t i) HWY_ATTR {
      return code(Half::low(df, load(x + i)), hn::And(load(draws + i), hn::Set(du, 0xFFFF)),
                  first + i);
    };
    const auto high = [&](std::int64_t i) HWY_ATTR {
      return code(Half::high(df, load(x + i)), hn::ShiftRight<16>(load(draws + i)), first + i);
    };
    return bytes_of_halves(d16, merge(low(0), high(0)), merge(low(lanes), high(lanes)));
  }
};

/// (x - lo) * scale, where smaller x count as `floor`: affine_code's code and fraction before the
/// draw is added, in the lowest 24 bits of each lane; the other bits are undefined.
/// @tparam kEightBits whether codes have eight bits, not fewer
template <bool kEightBits, class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto affine_fixed(DF df, VF x, VF lo, VF scale, VF floor) {
  const hn::RebindToUnsigned<DF> du;
  const auto u = hn::Mul(hn::Sub(hn::Max(x, floor), lo), scale);
  if constexpr (kEightBits) {
    return hn::BitCast(du, hn::NearestInt(hn::Min(u, hn::Set(df, 255.0F * 65536.0F))));
  } else {
    // Adding 2^23 rounds to an integer and leaves it in the sum's low bits, if it is below 2^23:
    // with 7 bits or fewer.
    return hn::BitCast(du, hn::Add(u, hn::Set(df, 0x1p23F)));
  }
}

/// affine_code of elements of kind S, of which smaller ones count as `floor`.
/// @tparam kZeroCode whether elements that are not above 0 get code 0
template <class S, bool kEightBits, bool kZeroCode = false>
class GroupQuantizer {
  using DF = hn::ScalableTag<float>;
  using D8 = hn::Repartition<std::uint8_t, DF>;
  using Raw = typename S::Raw;

 public:
  HWY_INLINE GroupQuantizer(float lo, float scale, int bits, float floor)
      : lo_(lo), scale_(scale), bits_(bits), floor_(floor) {}

  /// As CodeBlocks::write.
  HWY_INLINE void run(const Raw* HWY_RESTRICT x, const std::uint16_t* HWY_RESTRICT draws,
                      std::int64_t count, std::uint8_t* HWY_RESTRICT codes) const {
    CodeBlocks<S>::write(
        x, draws, count, count, codes,
        [&](auto v, auto draw, std::int64_t) HWY_ATTR { return hn::Add(fixed(v), draw); },
        [&](auto v) HWY_ATTR { return clamped(v); });
  }

 private:
  template <class VF>
  HWY_INLINE auto fixed(VF x) const {
    const DF df;
    const auto lo = hn::Set(df, lo_);
    if constexpr (kZeroCode) x = hn::IfThenElse(hn::Gt(x, hn::Zero(df)), x, lo);
    return affine_fixed<kEightBits>(df, x, lo, hn::Set(df, scale_), hn::Set(df, floor_));
  }

  template <class V8>
  HWY_INLINE V8 clamped(V8 codes) const {
    if constexpr (kEightBits) return codes;
    return hn::Min(codes, hn::Set(D8(), static_cast<std::uint8_t>((1 << bits_) - 1)));
  }

  float lo_;
  float scale_;
  int bits_;
  float floor_;
};

/// Runs the GroupQuantizer for `bits`.
template <class S, bool kZeroCode = false>
HWY_INLINE void quantize_group(const typename S::Raw* HWY_RESTRICT x,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                               float lo, float scale, int bits, float floor,
                               std::uint8_t* HWY_RESTRICT codes) {
  if (bits == 8) {
    GroupQuantizer<S, true, kZeroCode>(lo, scale, bits, floor).run(x, draws, count, codes);
  } else {
    GroupQuantizer<S, false, kZeroCode>(lo, scale, bits, floor).run(x, draws, count, codes);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
