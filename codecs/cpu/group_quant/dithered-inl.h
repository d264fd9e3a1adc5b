// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_DITHERED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_DITHERED_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_DITHERED_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_DITHERED_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// affine_value_dithered of vectors of codes and draws, both as integers.
class DitheredValues {
 public:
  HWY_INLINE DitheredValues(float lo, float step) : lo_(lo), step_(step * 0x1p-16F) {}

  template <class DF, class VI>
  HWY_INLINE hn::Vec<DF> operator()(DF df, VI code, VI draw) const {
    const hn::RebindToSigned<DF> di;
    const auto u = hn::Sub(hn::Add(hn::ShiftLeft<16>(code), hn::Set(di, 0x8000)), draw);
    return hn::Add(hn::Set(df, lo_), hn::Mul(hn::Set(df, step_), hn::ConvertTo(df, u)));
  }

 private:
  float lo_;
  float step_;
};

/// Writes `count` elements from as many codes and draws, which `value(df, code, draw)` turns into
/// floats. Reads up to a vector of both past the end.
template <class F>
HWY_INLINE void write_dithered(Float32, const std::uint8_t* HWY_RESTRICT codes,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                               Target<float> target, F value) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  write_blocks(df, codes, count, static_cast<std::int64_t>(hn::Lanes(df)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const std::uint16_t* const draw = draws + (code - codes);
                 store(0, value(df, hn::PromoteTo(di, hn::LoadU(d8, code)),
                                hn::PromoteTo(di, hn::LoadU(d16, draw))));
               });
}

template <class S, class F>
HWY_INLINE void write_dithered(S, const std::uint8_t* HWY_RESTRICT codes,
                               const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                               Target<std::uint16_t> target, F value) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Repartition<std::uint16_t, decltype(df)> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const hn::RebindToUnsigned<decltype(df)> du;
  const auto low = [&](auto pairs)
                       HWY_ATTR { return hn::BitCast(di, hn::And(pairs, hn::Set(du, 0xFFFF))); };
  const auto high = [&](auto pairs) HWY_ATTR { return hn::BitCast(di, hn::ShiftRight<16>(pairs)); };
  write_blocks(d16, codes, count, static_cast<std::int64_t>(hn::Lanes(d16)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const auto c = hn::BitCast(du, hn::PromoteTo(d16, hn::LoadU(d8, code)));
                 const auto d = hn::BitCast(du, hn::LoadU(d16, draws + (code - codes)));
                 store(0, S::pairs(df, value(df, low(c), low(d)), value(df, high(c), high(d))));
               });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
