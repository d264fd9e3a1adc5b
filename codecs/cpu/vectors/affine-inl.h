// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_AFFINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_AFFINE_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_AFFINE_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_AFFINE_INL_H_
#endif

#include <cstdint>

#include "codecs/affine.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The functions of codecs/affine.h, lane by lane.

/// Ranges as floats, with their scales.
template <class V>
struct AffineRanges {
  V lo, step, scale;
};

/// affine_range and affine_scale.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE AffineRanges<VF> affine_ranges(DF df, VF min, VF max, int bits) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const auto upper = hn::Set(du, 0xFFFF0000U);
  const auto up = hn::Set(du, 0xFFFFU);
  const auto min_bits = hn::BitCast(di, hn::Add(min, hn::Zero(df)));
  const auto down = hn::And(hn::BitCast(du, hn::BroadcastSignBit(min_bits)), up);
  const VF lo = hn::BitCast(df, hn::And(hn::Add(hn::BitCast(du, min_bits), down), upper));

  const VF extent = hn::Sub(max, lo);
  const auto positive = hn::Gt(extent, hn::Zero(df));
  const VF least = hn::Max(hn::Div(extent, hn::Set(df, static_cast<float>((1 << bits) - 1))),
                           hn::Set(df, kAffineMinStep));
  const VF step = hn::BitCast(df, hn::And(hn::Add(hn::BitCast(du, least), up), upper));
  return {lo, hn::IfThenElseZero(positive, step),
          hn::IfThenElseZero(positive, hn::Div(hn::Set(df, 65536.0F), step))};
}

/// The ranges' encoded bytes, one range a lane.
template <class DF, class VF>
HWY_INLINE auto packed_ranges(DF df, const AffineRanges<VF>& ranges) {
  const hn::RebindToUnsigned<DF> du;
  (void)df;
  static_assert(offsetof(AffineRange, lo) == 0 && offsetof(AffineRange, step) == 2);
  return hn::Or(hn::ShiftRight<16>(hn::BitCast(du, ranges.lo)), hn::BitCast(du, ranges.step));
}

/// Turns residuals and draws into codes.
template <bool kEightBits>
class AffineQuantizer {
 public:
  AffineQuantizer(float lo, float scale, int bits)
      : lo_(hn::Set(df_, lo)),
        scale_(hn::Set(df_, scale)),
        top_(hn::Set(d16_, top(bits))),
        top32_(hn::Set(d32_, top(bits))) {}

  /// Writes the codes of `count` numbers. `x(i)` returns the vector of numbers from i on; `draws`
  /// has their draws. Calls x, loads draws and stores codes up to a vector of bytes past `count`.
  template <class X>
  HWY_INLINE void operator()(const X& x, const std::uint16_t* HWY_RESTRICT draws,
                             std::int64_t count, std::uint8_t* HWY_RESTRICT codes) const {
    const hn::Rebind<std::uint8_t, decltype(d16_)> d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df_));
    std::int64_t i = 0;
    for (; i + lanes < count; i += 2 * lanes) {
      const auto fixed0 = fixed(x(i), draws + i);
      const auto fixed1 = fixed(x(i + lanes), draws + i + lanes);
      const auto code = hn::ConcatOdd(d16_, hn::BitCast(d16_, fixed1), hn::BitCast(d16_, fixed0));
      hn::StoreU(hn::TruncateTo(d8, hn::Min(code, top_)), d8, codes + i);
    }
    if (i < count) {
      const hn::Rebind<std::uint8_t, decltype(df_)> narrow;
      const auto code = hn::Min(hn::ShiftRight<16>(fixed(x(i), draws + i)), top32_);
      hn::StoreU(hn::TruncateTo(narrow, code), narrow, codes + i);
    }
  }

 private:
  static constexpr hn::ScalableTag<float> df_ = {};
  static constexpr hn::Repartition<std::uint16_t, hn::ScalableTag<float>> d16_ = {};
  static constexpr hn::RebindToUnsigned<hn::ScalableTag<float>> d32_ = {};
  using VF = hn::Vec<hn::ScalableTag<float>>;
  using V16 = hn::Vec<hn::Repartition<std::uint16_t, hn::ScalableTag<float>>>;

  /// Adding 2^23 rounds to an integer and leaves it in the sum's low bits, if it is below 2^23:
  /// with 7 bits or fewer. The bits above the code are dropped with the upper byte.
  static constexpr float kMagic = 0x1p23F;

  static std::uint16_t top(int bits) {
    const std::uint32_t base = kEightBits ? 0 : float_bits(kMagic) >> 16;
    return static_cast<std::uint16_t>(base + (1U << bits) - 1);
  }

  /// (x - lo) in 1/65536ths of a step, plus the draw.
  HWY_INLINE auto fixed(VF x, const std::uint16_t* draws) const {
    const hn::Rebind<std::uint16_t, decltype(df_)> half;
    const VF u = hn::Mul(hn::Sub(x, lo_), scale_);
    const auto draw = hn::PromoteTo(d32_, hn::LoadU(half, draws));
    if constexpr (kEightBits) {
      return hn::Add(hn::BitCast(d32_, hn::NearestInt(u)), draw);
    } else {
      return hn::Add(hn::BitCast(d32_, hn::Add(u, hn::Set(df_, kMagic))), draw);
    }
  }

  VF lo_;
  VF scale_;
  V16 top_;
  hn::Vec<hn::RebindToUnsigned<hn::ScalableTag<float>>> top32_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
