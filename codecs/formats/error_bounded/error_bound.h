// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/host_device.h"

/// COMET's quantization (section 4.1) on a lattice that keeps signs. For bins of width `step`,
///
///     code = sign(x) * ceil(|x| / step), which stands for sign(code) * (|code| - 1/2) * step.
///
/// With step = 2 * bound, |x| is off by at most the bound, only zero has code 0, and signs are
/// exact. The paper's own lattice, round(x / step), sends 0 < |x| < bound to zero. That is why
/// COMET must store ReLU's mask separately.
///
/// "At most the bound" means |x - y| <= bound for the real numbers that the element x and the
/// decoded element y stand for, where y is already rounded to the element's type. That rounding may
/// exceed the bound, so each element is checked before it is written (`is_held`). An element that
/// fails is held on a lattice of half the step, or bit for bit.
///
/// The check is done in float32 and yet holds for real numbers. It asks whether
/// fl(||x| - |y||) <= e, where e = bound_in(type, bound) <= bound is a value of the element's type.
/// Rounding is monotone and e is a float, so only a difference d with e < d <= e + ulp(e) / 2 could
/// pass wrongly (ulp of float32). No such d exists. Where |x| and |y| are both at least e, d is a
/// multiple of ulp(e), and the interval contains none. Where |x| < e, x lies in the coarse
/// lattice's first bin, whose point is e, or in the fine one's first two, whose points are about
/// e / 2 and 3 e / 2. Where |y| < e, y is the fine lattice's first point, and |x| is at most about
/// e. Where halving e is not exact, all of these are multiples of the type's smallest number, which
/// is at least ulp(e). tests/codecs/formats/error_bounded/error_bound_test.cpp checks every 16-bit
/// pattern in double arithmetic.
namespace cinch::codecs {

/// Largest |code| in use: up to it |code| - 1/2 is a float, and sums of eight codes fit int32.
inline constexpr float kMaxCode = 0x1p23F - 1.0F;

/// Reads that codecs with bounded values and exact signs can serve.
constexpr bool serves_bounded(Reads reads) noexcept {
  return reads == Reads::values || reads == Reads::sign;
}

/// The largest value of the element's type that is <= bound. @pre bound > 0 and finite
CINCH_HD inline float bound_in(ElementType type, float bound) noexcept {
  if (type == ElementType::float32) return bound;
  if (type == ElementType::bfloat16) return float_of_bf16(bf16_down(bound));
  const std::uint16_t nearest = f16_nearest(bound);
  const float value = float_of_f16(nearest);
  return value <= bound ? value : float_of_f16(static_cast<std::uint16_t>(nearest - 1));
}

/// x rounded to the type's nearest value, ties to even (float16: clamped to its finite range).
/// @pre x is not NaN
CINCH_HD inline float round_to(ElementType type, float x) noexcept {
  if (type == ElementType::float32) return x;
  return type == ElementType::bfloat16 ? float_of_bf16(bf16_nearest(x))
                                       : float_of_f16(f16_nearest(x));
}

/// The smallest positive value of the type.
CINCH_HD inline float smallest_of(ElementType type) noexcept {
  if (type == ElementType::float32) return 0x1p-149F;
  return type == ElementType::bfloat16 ? 0x1p-133F : 0x1p-24F;
}

struct Lattice {
  float step;
  float scale;  ///< 1 / step; 0 where that overflows float32
};

CINCH_HD inline Lattice lattice_of(float step) noexcept {
  const float scale = 1.0F / step;
  return {step, scale <= 0x1.FFFFFEp127F ? scale : 0.0F};
}

/// An error bound with its lattices for elements of one type.
struct ErrorBound {
  ElementType type;
  float limit;      ///< bound_in(type, bound)
  Lattice coarse;   ///< bins of 2 * limit
  Lattice fine;     ///< bins of limit: for elements that rounding moves out of bound on `coarse`
  bool has_fine;    ///< false where the type would round fine's first point to 0
  bool is_regular;  ///< |x| * scale > 0 for every x but 0, and fine's scale is twice coarse's

  CINCH_HD const Lattice& lattice(bool is_fine) const noexcept { return is_fine ? fine : coarse; }
};

/// @pre is_quantizable(type), bound > 0 and finite
CINCH_HD inline ErrorBound error_bound_of(ElementType type, float bound) noexcept {
  ErrorBound result;
  result.type = type;
  result.limit = bound_in(type, bound);
  result.coarse = lattice_of(2.0F * result.limit);
  result.fine = lattice_of(result.limit);
  result.has_fine = round_to(type, 0.5F * result.fine.step) > 0.0F;
  result.is_regular = smallest_of(type) * result.coarse.scale > 0.0F &&
                      result.fine.scale == 2.0F * result.coarse.scale;
  return result;
}

/// |code| of |x|, an integer: 0 for 0, otherwise at least 1; NaN for NaN.
CINCH_HD inline float code_magnitude(float magnitude, const Lattice& lattice) noexcept {
  if (magnitude == 0.0F) return 0.0F;
  const float code = ceilf(magnitude * lattice.scale);
  return code < 1.0F ? 1.0F : code;
}

/// The value of |code|, rounded to the element's type.
CINCH_HD inline float value_magnitude(ElementType type, float code,
                                      const Lattice& lattice) noexcept {
  if (code == 0.0F) return 0.0F;
  return round_to(type, (code - 0.5F) * lattice.step);
}

/// Whether the code from code_magnitude keeps |x| within the bound. False for NaN and infinity.
CINCH_HD inline bool is_held(const ErrorBound& bound, float magnitude, float code,
                             const Lattice& lattice) noexcept {
  if (!(code <= kMaxCode)) return false;
  return fabsf(magnitude - value_magnitude(bound.type, code, lattice)) <= bound.limit;
}

}  // namespace cinch::codecs
