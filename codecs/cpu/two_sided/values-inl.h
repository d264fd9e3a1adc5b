// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TWO_SIDED_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TWO_SIDED_VALUES_INL_H_
#undef CINCH_CODECS_CPU_TWO_SIDED_VALUES_INL_H_
#else
#define CINCH_CODECS_CPU_TWO_SIDED_VALUES_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/group_quant/dithered-inl.h"
#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/float_formats.h"
#include "codecs/formats/two_sided.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What codes of a group and channel decode to.
class SideValues {
 public:
  /// @param scale changes nothing by default
  HWY_INLINE SideValues(const TwoSidedRanges& ranges, int bits, const TwoSidedScale& scale)
      : scale_(scale), bits_(bits) {
    lo_[0] = float_of_bf16(ranges.lower.lo);
    lo_[1] = float_of_bf16(ranges.upper.lo);
    step_[0] = float_of_bf16(ranges.lower.step);
    step_[1] = float_of_bf16(ranges.upper.step);
  }

  int bits() const { return bits_; }

  /// Of codes as floats.
  template <class DF, class VF = hn::Vec<DF>>
  HWY_INLINE VF operator()(DF df, VF code) const {
    const auto half = hn::Set(df, static_cast<float>(1 << (bits_ - 1)));
    const auto upper = hn::Ge(code, half);
    const auto step = hn::IfThenElse(upper, hn::Set(df, step_[1]), hn::Set(df, step_[0]));
    const auto lo = hn::IfThenElse(upper, hn::Set(df, lo_[1]), hn::Set(df, lo_[0]));
    const auto low = hn::Sub(code, hn::IfThenElseZero(upper, half));
    return denormal(df, hn::Add(lo, hn::Mul(step, low)));
  }

  /// Of dithered codes, and their draws, both as integers.
  template <class DF, class VI>
  HWY_INLINE hn::Vec<DF> operator()(DF df, VI code, VI draw) const {
    const hn::RebindToSigned<DF> di;
    const auto side = hn::BitCast(df, hn::ShiftLeftSame(code, 32 - bits_));  // its sign
    const auto low = hn::And(code, hn::Set(di, (1 << (bits_ - 1)) - 1));
    const auto u = hn::Sub(hn::Add(hn::ShiftLeft<16>(low), hn::Set(di, 0x8000)), draw);
    const auto step = hn::IfNegativeThenElse(side, hn::Set(df, step_[1] * 0x1p-16F),
                                             hn::Set(df, step_[0] * 0x1p-16F));
    const auto lo = hn::IfNegativeThenElse(side, hn::Set(df, lo_[1]), hn::Set(df, lo_[0]));
    return denormal(df, hn::Add(lo, hn::Mul(step, hn::ConvertTo(df, u))));
  }

 private:
  template <class DF, class VF = hn::Vec<DF>>
  HWY_INLINE VF denormal(DF df, VF z) const {
    return hn::Add(hn::Mul(z, hn::Set(df, scale_.spread)), hn::Set(df, scale_.center));
  }

  float lo_[2];
  float step_[2];
  TwoSidedScale scale_;
  int bits_;
};

/// write_values of floats whose values are looked up: those of each side fit into a vector, of at
/// most 16 lanes.
HWY_INLINE void look_sides_up(const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                              Target<float> target, const SideValues& value) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const int half = 1 << (value.bits() - 1);
  const auto lower = value(df, hn::LoadU(df, kFirstIntegers));
  const auto upper =
      value(df, hn::Add(hn::LoadU(df, kFirstIntegers), hn::Set(df, static_cast<float>(half))));
  write_blocks(df, codes, count, static_cast<std::int64_t>(hn::Lanes(df)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const auto c = hn::PromoteTo(di, hn::LoadU(d8, code));
                 const auto side = hn::BitCast(df, hn::ShiftLeftSame(c, 32 - value.bits()));
                 const auto low = hn::IndicesFromVec(df, hn::And(c, hn::Set(di, half - 1)));
                 store(0, hn::IfNegativeThenElse(side, hn::TableLookupLanes(upper, low),
                                                 hn::TableLookupLanes(lower, low)));
               });
}

HWY_INLINE void write_sides(Float32 kind, const std::uint8_t* HWY_RESTRICT codes,
                            std::int64_t count, Target<float> target, const SideValues& value) {
  const auto lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<float>()));
  if (1 << (value.bits() - 1) <= lanes) {
    look_sides_up(codes, count, target, value);
  } else {
    write_values(kind, codes, count, value.bits(), target, value);
  }
}
template <class Half>
HWY_INLINE void write_sides(Half kind, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                            Target<std::uint16_t> target, const SideValues& value) {
  write_values(kind, codes, count, value.bits(), target, value);
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
