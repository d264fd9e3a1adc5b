// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "codecs/float_formats.h"
#include "codecs/host_device.h"

/// Affine quantization with stochastic rounding, the core of DIVISION, ActNN and AC-GC's AutoQuant
/// (ActNN, section 4.1): x is held as a code of b bits, which stands for lo + step * code.
///
/// lo is rounded down and step up to bfloat16 before codes are computed from them: rounding them
/// afterwards would bias the decoded values. Arithmetic is float32, to nearest even, without fused
/// multiply-add.
namespace cinch::codecs {

/// Zero point and step, both bfloat16.
struct AffineRange {
  std::uint16_t lo = 0;
  std::uint16_t step = 0;

  CINCH_HD bool operator==(const AffineRange& other) const noexcept {
    return lo == other.lo && step == other.step;
  }
};

/// Larger magnitudes are treated as infinities, so that nothing here overflows.
inline constexpr float kAffineMaxMagnitude = 0x1p80F;
inline constexpr float kAffineMinStep = 0x1p-110F;

/// The range of data with a NaN, an infinity or a magnitude above kAffineMaxMagnitude: lo 0 and
/// step NaN. All codes are written as 0 and decode to NaN.
inline constexpr std::uint16_t kPoisonedStep = 0x7FC0;
CINCH_HD inline AffineRange poisoned_range() noexcept {
  return {0, kPoisonedStep};
}

/// Range that covers min to max in codes of `bits` bits: lo = min rounded down (+0 rather than -0),
/// step = (max - lo) / (2^bits - 1) rounded up, at least kAffineMinStep, but 0 where max = lo.
/// @pre min <= max, both at most kAffineMaxMagnitude in magnitude; 1 <= bits <= 16
CINCH_HD inline AffineRange affine_range(float min, float max, int bits) noexcept {
  AffineRange range;
  range.lo = bf16_down(min + 0.0F);  // -0 becomes +0
  const float extent = max - float_of_bf16(range.lo);
  if (extent > 0.0F) {
    const float step = extent / static_cast<float>((1 << bits) - 1);
    range.step = bf16_up(step > kAffineMinStep ? step : kAffineMinStep);
  }
  return range;
}

/// 65536 / step, or 0 if step is 0: the factor from (x - lo) to 1/65536ths of a step.
CINCH_HD inline float affine_scale(AffineRange range) noexcept {
  const float step = float_of_bf16(range.step);
  return step > 0.0F ? 65536.0F / step : 0.0F;
}

/// The code of x: floor((x - lo) / step + draw / 65536), clamped.
/// @pre range holds x, bits <= 8, draw < 65536, scale = affine_scale(range)
CINCH_HD inline std::uint32_t affine_code(float x, float lo, float scale, int bits,
                                          std::uint32_t draw) noexcept {
  // 0 <= x - lo <= (2^bits - 1) * step but for rounding, so u is below 2^25.
  const auto u = static_cast<std::int32_t>(rintf((x - lo) * scale));
  const std::int32_t code = (u + static_cast<std::int32_t>(draw)) >> 16;
  const std::int32_t top = (1 << bits) - 1;
  return static_cast<std::uint32_t>(code < top ? code : top);
}

/// The code of x in up to 16 bits. With t = (x - lo) / step: floor(t), plus 1 when t's fraction in
/// 1/65536ths (rounded to nearest) plus the draw is 65536 or more; clamped.
///
/// t is a float32, so a code of b bits leaves 24 - b bits for the fraction. Over all draws, the
/// code's expectation is t's exact value to within 2^(b - 23) + 2^-17 steps (below 2^-6 at 16 bits,
/// 2^-13 at 9). The error comes from rounding to nearest, so it has no preferred sign.
/// @pre range holds x, bits <= 16, draw < 65536
CINCH_HD inline std::uint32_t affine_code_wide(float x, float lo, float step, int bits,
                                               std::uint32_t draw) noexcept {
  const float t = (x - lo) / (step > 0.0F ? step : 1.0F);
  const auto whole = static_cast<std::int32_t>(t);
  const auto fraction =
      static_cast<std::int32_t>(rintf((t - static_cast<float>(whole)) * 65536.0F));
  const std::int32_t code = whole + ((fraction + static_cast<std::int32_t>(draw)) >> 16);
  const std::int32_t top = (1 << bits) - 1;
  return static_cast<std::uint32_t>(code < top ? code : top);
}

/// Upper bound, in steps, of |x - (lo + step * code)| for the codes of both functions and any draw:
/// one, plus float32's error in (x - lo) / step.
CINCH_HD inline float affine_error(int bits) noexcept {
  return 1.0F + static_cast<float>(1 << bits) * 0x1p-22F;
}

/// The value of a code. The product is exact: step has 8 significant bits, the code at most 16.
CINCH_HD inline float affine_value(float lo, float step, std::uint32_t code) noexcept {
  return lo + step * static_cast<float>(code);
}

/// The value of a code with subtractive dithering: the draw that affine_code added before it
/// rounded down is subtracted again (Schuchman, "Dither Signals and Their Effect on Quantization
/// Noise", 1964; Gray and Stockham, "Dithered Quantizers", 1993). The error is uniform within half
/// a step on either side, whatever x is, so its variance is step^2 / 12: half of what stochastic
/// rounding's is on average. A value may lie half a step outside of the data's range, and 0 is not
/// restored exactly, but for step 0.
/// @pre code and draw are those of affine_code
CINCH_HD inline float affine_value_dithered(float lo, float step, std::uint32_t code,
                                            std::uint32_t draw) noexcept {
  const auto u = static_cast<std::int32_t>((code << 16) + 0x8000U - draw);
  return lo + step * 0x1p-16F * static_cast<float>(u);
}

}  // namespace cinch::codecs
