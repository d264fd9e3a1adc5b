// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_BOUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_BOUND_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_BOUND_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_BOUND_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/element_bits.h"
#include "codecs/formats/error_bounded/error_bound.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// round_to of codecs/formats/error_bounded/error_bound.h, for points of lattices. @pre x is at
/// least minus the bound; a negative x is a value of the type, or half of one
template <class S, class DF, class VF = hn::Vec<DF>>
HWY_INLINE VF lanes_round_to(DF df, VF x) {
  if constexpr (S::kType == ElementType::bfloat16) {
    return nearest_bf16_value(df, x);
  } else if constexpr (S::kType == ElementType::float16) {
    return nearest_f16_value(df, x);
  } else {
    return x;
  }
}

/// code_magnitude. `is_regular` as in ErrorBound.
template <bool is_regular, class DF, class VF = hn::Vec<DF>>
HWY_INLINE VF lanes_code(DF df, VF magnitude, VF scale) {
  const auto code = hn::Ceil(hn::Mul(magnitude, scale));
  if constexpr (is_regular) {
    return code;
  } else {
    const auto floored = hn::IfThenElse(hn::Lt(code, hn::Set(df, 1.0F)), hn::Set(df, 1.0F), code);
    return hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(df)), floored);
  }
}

/// The lattice point of |code|, not yet rounded to the type; -step / 2 for code 0.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE VF lanes_point(DF df, VF code, VF step) {
  return hn::Mul(hn::Sub(code, hn::Set(df, 0.5F)), step);
}

/// is_held without the check that the code is small enough. `is_regular` as in ErrorBound.
/// @pre the type does not round the lattice's first point to 0
template <class S, bool is_regular, class DF, class VF = hn::Vec<DF>>
HWY_INLINE hn::Mask<DF> lanes_are_near(DF df, VF magnitude, VF code, VF step, VF limit) {
  const auto value = lanes_round_to<S>(df, lanes_point(df, code, step));
  const auto near = hn::Le(hn::Abs(hn::Sub(magnitude, value)), limit);
  // A regular lattice's -step / 2 is within the bound of 0, too.
  return is_regular ? near : hn::Or(near, hn::Eq(magnitude, hn::Zero(df)));
}

/// A mask of at most 32 lanes, lane 0's bit lowest.
template <class D, class M>
HWY_INLINE std::uint32_t bits_of_mask(D d, M mask) {
  std::uint8_t room[8] = {};  // Highway may write all of them
  hn::StoreMaskBits(d, mask, room);
  std::uint32_t bits;
  std::memcpy(&bits, room, sizeof bits);
  return bits;
}

/// For Reads::sign: replaces `count` elements by 1 where positive and 0 elsewhere; NaNs stay.
template <class S>
HWY_NOINLINE void keep_signs(std::byte* HWY_RESTRICT x, std::int64_t count) {
  using Bits = std::make_signed_t<typename S::Bits>;
  const hn::ScalableTag<Bits> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto infinity = hn::Set(d, static_cast<Bits>(bits_of_infinity(S::kType)));
  const auto one = hn::Set(d, static_cast<Bits>(bits_of_one(S::kType)));
  const auto sign_of = [&](auto bits) {
    const auto magnitude = hn::And(bits, hn::Set(d, hwy::LimitsMax<Bits>()));
    const auto positive = hn::IfThenElseZero(hn::Gt(bits, hn::Zero(d)), one);
    return hn::IfThenElse(hn::Gt(magnitude, infinity), bits, positive);
  };
  auto* const elements = reinterpret_cast<Bits*>(x);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(sign_of(hn::LoadU(d, elements + i)), d, elements + i);
  }
  if (i < count) {
    HWY_ALIGN Bits rest[HWY_MAX_BYTES / sizeof(Bits)] = {};
    std::memcpy(rest, elements + i, (count - i) * sizeof(Bits));
    hn::Store(sign_of(hn::Load(d, rest)), d, rest);
    std::memcpy(elements + i, rest, (count - i) * sizeof(Bits));
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
