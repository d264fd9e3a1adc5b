// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ELEMENT_KINDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ELEMENT_KINDS_INL_H_
#undef CINCH_CODECS_CPU_ELEMENT_KINDS_INL_H_
#else
#define CINCH_CODECS_CPU_ELEMENT_KINDS_INL_H_
#endif

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The element types of floats as C++ types: their representation and conversions.

struct Float32 {
  using Raw = float;
  using Ordered = float;  ///< type in which minimum and maximum are computed
  static constexpr ElementType kType = ElementType::float32;
};

/// A pair of 16-bit elements is one 32-bit lane, low half first.
struct Bfloat16 {
  using Raw = std::uint16_t;
  using Ordered = std::int32_t;
  static constexpr ElementType kType = ElementType::bfloat16;

  static float value(std::uint16_t bits) { return float_of_bf16(bits); }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> low(DF df, V32 pairs) {
    return hn::BitCast(df, hn::ShiftLeft<16>(pairs));
  }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> high(DF df, V32 pairs) {
    const hn::RebindToUnsigned<DF> du;
    return hn::BitCast(df, hn::And(pairs, hn::Set(du, 0xFFFF0000U)));
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto bits(DF df, VF x) {
    return hn::ShiftRight<16>(rounded(df, x));
  }
  /// The nearest elements of `low` in even 16-bit lanes, of `high` in odd ones.
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto pairs(DF df, VF low, VF high) {
    const hn::Repartition<std::uint16_t, DF> d16;
    return hn::OddEven(hn::BitCast(d16, rounded(df, high)), hn::BitCast(d16, bits(df, low)));
  }

 private:
  /// The nearest element in the upper half.
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto rounded(DF df, VF x) {
    const hn::RebindToUnsigned<DF> du;
    (void)df;
    const auto exact = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(exact), hn::Set(du, 1));
    return hn::Add(exact, hn::Add(odd, hn::Set(du, 0x7FFF)));
  }
};

struct Float16 {
  using Raw = std::uint16_t;
  using Ordered = std::int32_t;
  static constexpr ElementType kType = ElementType::float16;

  static float value(std::uint16_t bits) { return float_of_f16(bits); }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> low(DF df, V32 pairs) {
    return lanes_of_f16(df, pairs);
  }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> high(DF df, V32 pairs) {
    return lanes_of_f16(df, hn::ShiftRight<16>(pairs));
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto bits(DF df, VF x) {
    return lanes_to_f16(df, x);
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto pairs(DF df, VF low, VF high) {
    const hn::Repartition<std::uint16_t, DF> d16;
    return hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(bits(df, high))),
                       hn::BitCast(d16, bits(df, low)));
  }
};

/// Has no conversions: kernels that take float64 work on it as Float32.
struct Float64 {
  using Raw = double;
  static constexpr ElementType kType = ElementType::float64;
};

/// Calls f with Float32(), Bfloat16() or Float16(). @pre is_quantizable(type)
template <class F>
HWY_INLINE auto with_element(ElementType type, const F& f) {
  if (type == ElementType::float32) return f(Float32());
  return type == ElementType::bfloat16 ? f(Bfloat16()) : f(Float16());
}

/// The same with Float64() too. @pre is_float(type)
template <class F>
HWY_INLINE auto with_any_element(ElementType type, const F& f) {
  if (type == ElementType::float64) return f(Float64());
  return with_element(type, f);
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
