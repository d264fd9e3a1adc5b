// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_FLOAT_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_FLOAT_FORMATS_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_FLOAT_FORMATS_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_FLOAT_FORMATS_INL_H_
#endif

#include <cstdint>

#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The functions of codecs/float_formats.h, lane by lane. Highway's own conversions differ between
// targets in denormals, infinities and ties. x86's instructions for float16 agree with ours, except
// that they don't clamp and that they make signaling NaNs quiet.
#undef CINCH_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define CINCH_HAVE_F16C 1
#else
#define CINCH_HAVE_F16C 0
#endif

template <class DF, class V32>
HWY_INLINE hn::Vec<DF> lanes_of_bf16(DF df, V32 bits) {
  return hn::BitCast(df, hn::ShiftLeft<16>(bits));
}

/// The nearest bfloat16 in the upper half of each lane; the lower half is noise.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto rounded_to_bf16(DF df, VF x) {
  const hn::RebindToUnsigned<DF> du;
  (void)df;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
}

template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto lanes_to_bf16(DF df, VF x) {
  return hn::ShiftRight<16>(rounded_to_bf16(df, x));
}

/// The nearest bfloat16 as a float.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE VF nearest_bf16_value(DF df, VF x) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(df, hn::And(rounded_to_bf16(df, x), hn::Set(du, 0xFFFF0000U)));
}

#if CINCH_HAVE_F16C
/// A vector of float16s to as many floats, and the reverse.
template <class DF, class V16>
HWY_INLINE hn::Vec<DF> floats_of_f16(DF df, V16 halves) {
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), halves));
}
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto floats_to_f16(DF df, VF x) {
  const auto clamped = hn::Min(hn::Max(x, hn::Set(df, -kMaxF16)), hn::Set(df, kMaxF16));
  const auto halves = hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), clamped);
  return hn::BitCast(hn::Rebind<std::uint16_t, DF>(), halves);
}

/// The same from and to the lower half of each lane.
template <class DF, class V32>
HWY_INLINE hn::Vec<DF> lanes_of_f16(DF df, V32 bits) {
  return floats_of_f16(df, hn::TruncateTo(hn::Rebind<std::uint16_t, DF>(), bits));
}
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto lanes_to_f16(DF df, VF x) {
  return hn::PromoteTo(hn::RebindToUnsigned<DF>(), floats_to_f16(df, x));
}
#else
template <class DF, class V32>
HWY_INLINE hn::Vec<DF> lanes_of_f16(DF df, V32 bits) {
  const hn::RebindToUnsigned<DF> du;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFF)));
  const auto scaled = hn::BitCast(du, hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112F)));
  const auto special =
      hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(du, 0x0F7FFFFFU)), hn::Set(du, 0x7F800000U));
  return hn::BitCast(df, hn::Or(hn::Or(sign, scaled), special));
}

template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto lanes_to_f16(DF df, VF x) {
  const hn::RebindToUnsigned<DF> du;
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, x)), hn::Set(du, 0x8000));
  const auto magnitude = hn::Min(hn::Abs(x), hn::Set(df, kMaxF16));
  const auto half = hn::Set(df, 0.5F);
  const auto denormal = hn::Sub(hn::BitCast(du, hn::Add(magnitude, half)), hn::BitCast(du, half));
  const auto bits = hn::BitCast(du, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1));
  const auto normal = hn::ShiftRight<13>(
      hn::Sub(hn::Add(bits, hn::Add(odd, hn::Set(du, 0xFFF))), hn::Set(du, 112U << 23)));
  const auto is_small = hn::RebindMask(du, hn::Lt(magnitude, hn::Set(df, 0x1p-14F)));
  return hn::Or(sign, hn::IfThenElse(is_small, denormal, normal));
}

template <class DF, class V16>
HWY_INLINE hn::Vec<DF> floats_of_f16(DF df, V16 halves) {
  return lanes_of_f16(df, hn::PromoteTo(hn::RebindToUnsigned<DF>(), halves));
}
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto floats_to_f16(DF df, VF x) {
  return hn::TruncateTo(hn::Rebind<std::uint16_t, DF>(), lanes_to_f16(df, x));
}
#endif

/// The nearest float16 as a float. @pre x >= 0, or x is a multiple of 2^-25 above -kMaxF16 with at
/// most 11 significant bits
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE VF nearest_f16_value(DF df, VF x) {
#if CINCH_HAVE_F16C
  return floats_of_f16(df, floats_to_f16(df, x));
#else
  const hn::RebindToUnsigned<DF> du;
  const auto half = hn::Set(df, 0.5F);
  const auto capped = hn::Min(x, hn::Set(df, kMaxF16));
  // Below 2^-14 float16 has steps of 2^-24, the spacing of floats just above 1/2.
  const auto denormal = hn::Sub(hn::Add(capped, half), half);
  const auto bits = hn::BitCast(du, capped);
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0xFFF)));
  const auto normal = hn::BitCast(df, hn::And(rounded, hn::Set(du, 0xFFFFE000U)));
  return hn::IfThenElse(hn::Lt(capped, hn::Set(df, 0x1p-14F)), denormal, normal);
#endif
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
