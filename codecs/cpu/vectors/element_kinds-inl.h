// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_ELEMENT_KINDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_ELEMENT_KINDS_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_ELEMENT_KINDS_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_ELEMENT_KINDS_INL_H_
#endif

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/vectors/float_formats-inl.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The element types of floats as C++ types. `load` takes elements at any address as a vector of
// floats; `store` stores a vector of floats as the nearest elements, `store_two` two vectors side
// by side.

struct Float32 {
  using Raw = float;
  using Bits = std::uint32_t;
  using Ordered = float;  ///< type in which minimum and maximum are computed
  static constexpr ElementType kType = ElementType::float32;

  static float value(Bits bits) { return float_of_bits(bits); }
  static Bits nearest(float x) { return float_bits(x); }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> load(DF df, const Raw* from) {
    return hn::LoadU(df, from);
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store(DF df, VF x, Raw* to) {
    hn::StoreU(x, df, to);
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store_two(DF df, VF x0, VF x1, Raw* to) {
    hn::StoreU(x0, df, to);
    hn::StoreU(x1, df, to + hn::Lanes(df));
  }
};

/// A pair of 16-bit elements is one 32-bit lane, low half first.
struct Bfloat16 {
  using Raw = std::uint16_t;
  using Bits = std::uint16_t;
  using Ordered = std::int32_t;
  static constexpr ElementType kType = ElementType::bfloat16;

  static float value(Bits bits) { return float_of_bf16(bits); }
  static Bits nearest(float x) { return bf16_nearest(x); }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> load(DF df, const Raw* from) {
    const hn::RebindToUnsigned<DF> du;
    const hn::Rebind<std::uint16_t, DF> d16;
    return lanes_of_bf16(df, hn::PromoteTo(du, hn::LoadU(d16, from)));
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store(DF df, VF x, Raw* to) {
    const hn::Rebind<std::uint16_t, DF> d16;
    hn::StoreU(hn::TruncateTo(d16, lanes_to_bf16(df, x)), d16, to);
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store_two(DF df, VF x0, VF x1, Raw* to) {
    const hn::Repartition<std::uint16_t, DF> d16;
    const auto upper0 = hn::BitCast(d16, rounded_to_bf16(df, x0));
    const auto upper1 = hn::BitCast(d16, rounded_to_bf16(df, x1));
    hn::StoreU(hn::ConcatOdd(d16, upper1, upper0), d16, to);
  }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> low(DF df, V32 pairs) {
    return lanes_of_bf16(df, pairs);
  }
  template <class DF, class V32>
  static HWY_INLINE hn::Vec<DF> high(DF df, V32 pairs) {
    const hn::RebindToUnsigned<DF> du;
    return hn::BitCast(df, hn::And(pairs, hn::Set(du, 0xFFFF0000U)));
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto bits(DF df, VF x) {
    return lanes_to_bf16(df, x);
  }
  /// The nearest elements of `low` in even 16-bit lanes, of `high` in odd ones.
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE auto pairs(DF df, VF low, VF high) {
    const hn::Repartition<std::uint16_t, DF> d16;
    return hn::OddEven(hn::BitCast(d16, rounded_to_bf16(df, high)),
                       hn::BitCast(d16, bits(df, low)));
  }
};

struct Float16 {
  using Raw = std::uint16_t;
  using Bits = std::uint16_t;
  using Ordered = std::int32_t;
  static constexpr ElementType kType = ElementType::float16;

  static float value(Bits bits) { return float_of_f16(bits); }
  static Bits nearest(float x) { return f16_nearest(x); }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> load(DF df, const Raw* from) {
    return floats_of_f16(df, hn::LoadU(hn::Rebind<std::uint16_t, DF>(), from));
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store(DF df, VF x, Raw* to) {
    hn::StoreU(floats_to_f16(df, x), hn::Rebind<std::uint16_t, DF>(), to);
  }
  template <class DF, class VF = hn::Vec<DF>>
  static HWY_INLINE void store_two(DF df, VF x0, VF x1, Raw* to) {
#if CINCH_HAVE_F16C
    store(df, x0, to);
    store(df, x1, to + hn::Lanes(df));
#else
    const hn::Repartition<std::uint16_t, DF> d16;
    const auto lower0 = hn::BitCast(d16, lanes_to_f16(df, x0));
    const auto lower1 = hn::BitCast(d16, lanes_to_f16(df, x1));
    hn::StoreU(hn::ConcatEven(d16, lower1, lower0), d16, to);
#endif
  }
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

/// Converts n elements of 16 bits to floats.
template <class S>
HWY_NOINLINE void to_floats(const std::uint16_t* HWY_RESTRICT source, std::int64_t n,
                            float* HWY_RESTRICT floats) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(S::load(df, source + i), df, floats + i);
  for (; i < n; ++i) floats[i] = S::value(source[i]);
}

/// Converts n floats to the nearest elements of 16 bits.
template <class S>
HWY_NOINLINE void from_floats(const float* HWY_RESTRICT floats, std::int64_t n,
                              std::uint16_t* HWY_RESTRICT target) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    S::store_two(df, hn::LoadU(df, floats + i), hn::LoadU(df, floats + i + lanes), target + i);
  }
  for (; i < n; ++i) target[i] = S::nearest(floats[i]);
}

/// Converts n doubles to the nearest floats; values beyond float's range become infinities, or its
/// largest numbers.
inline HWY_NOINLINE void narrow_doubles(const double* HWY_RESTRICT source, std::int64_t n,
                                        float* HWY_RESTRICT floats) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(dd));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(df, hn::LoadU(dd, source + i)), df, floats + i);
  }
  for (; i < n; ++i) floats[i] = static_cast<float>(source[i]);
}

inline HWY_NOINLINE void widen_floats(const float* HWY_RESTRICT floats, std::int64_t n,
                                      double* HWY_RESTRICT target) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(dd));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(dd, hn::LoadU(df, floats + i)), dd, target + i);
  }
  for (; i < n; ++i) target[i] = floats[i];
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
