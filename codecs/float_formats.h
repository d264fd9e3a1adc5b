// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/host_device.h"

/// Conversions of bfloat16 and float16 bit patterns. They use integer arithmetic only where the
/// result would otherwise depend on the machine. Denormals are honoured throughout.
namespace cinch::codecs {

CINCH_HD inline std::uint32_t float_bits(float x) noexcept {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

CINCH_HD inline float float_of_bits(std::uint32_t bits) noexcept {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

CINCH_HD inline float float_of_bf16(std::uint16_t bits) noexcept {
  return float_of_bits(std::uint32_t{bits} << 16);
}

/// Nearest bfloat16, ties to even. @pre x is not NaN
CINCH_HD inline std::uint16_t bf16_nearest(float x) noexcept {
  const std::uint32_t bits = float_bits(x);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/// Largest bfloat16 that is <= x. @pre x is finite
CINCH_HD inline std::uint16_t bf16_down(float x) noexcept {
  const std::uint32_t bits = float_bits(x);
  const bool negative = bits >> 31 != 0;
  return static_cast<std::uint16_t>((bits + (negative ? 0xFFFFU : 0U)) >> 16);
}

/// Smallest bfloat16 that is >= x. @pre x is finite and x >= 0
CINCH_HD inline std::uint16_t bf16_up(float x) noexcept {
  return static_cast<std::uint16_t>((float_bits(x) + 0xFFFFU) >> 16);
}

/// Exact; infinities and NaNs keep their kind.
CINCH_HD inline float float_of_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
  // The exponents' biases differ by 112. Multiplying also normalizes float16's denormals.
  std::uint32_t scaled = float_bits(float_of_bits(magnitude) * 0x1p112F);
  if (magnitude >= 0x0F800000U) scaled |= 0x7F800000U;
  return float_of_bits(sign | scaled);
}

/// Largest finite float16.
inline constexpr float kMaxF16 = 65504.0F;

/// Nearest float16, ties to even, of x clamped to +-65504. @pre x is not NaN
CINCH_HD inline std::uint16_t f16_nearest(float x) noexcept {
  const std::uint32_t sign = float_bits(x) >> 16 & 0x8000U;
  float magnitude = float_of_bits(float_bits(x) & 0x7FFFFFFFU);
  if (magnitude > kMaxF16) magnitude = kMaxF16;
  // Below 2^-14 float16 has steps of 2^-24, the spacing of floats just above 1/2.
  const std::uint32_t denormal = float_bits(magnitude + 0.5F) - float_bits(0.5F);
  const std::uint32_t bits = float_bits(magnitude);
  const std::uint32_t normal = (bits + 0xFFFU + (bits >> 13 & 1U) - (112U << 23)) >> 13;
  return static_cast<std::uint16_t>(sign | (magnitude < 0x1p-14F ? denormal : normal));
}

}  // namespace cinch::codecs
