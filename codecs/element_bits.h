// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/host_device.h"

/// Bit patterns of the floating-point types. @pre is_float(type)
namespace cinch::codecs {

/// Pattern of 1.
CINCH_HD constexpr std::uint64_t bits_of_one(ElementType type) noexcept {
  if (type == ElementType::float64) return 0x3FF0000000000000U;
  if (type == ElementType::float32) return 0x3F800000U;
  return type == ElementType::bfloat16 ? 0x3F80U : 0x3C00U;
}

/// Pattern of the least value above 0 that stays above 0 on any processor: of float16 the smallest;
/// of the other types the smallest that is not subnormal, as processors may take those for 0.
CINCH_HD constexpr std::uint64_t bits_of_least(ElementType type) noexcept {
  if (type == ElementType::float64) return 0x0010000000000000U;
  if (type == ElementType::float32) return 0x00800000U;
  return type == ElementType::bfloat16 ? 0x0080U : 0x0001U;
}

/// Pattern of -0, the sign bit.
CINCH_HD constexpr std::uint64_t bits_of_minus_zero(ElementType type) noexcept {
  if (type == ElementType::float64) return 0x8000000000000000U;
  return type == ElementType::float32 ? 0x80000000U : 0x8000U;
}

/// Pattern of +infinity; larger magnitudes are NaNs.
CINCH_HD constexpr std::uint64_t bits_of_infinity(ElementType type) noexcept {
  if (type == ElementType::float64) return 0x7FF0000000000000U;
  if (type == ElementType::float32) return 0x7F800000U;
  return type == ElementType::bfloat16 ? 0x7F80U : 0x7C00U;
}

/// Pattern of the quiet NaN that poisoned data decode to in every engine.
CINCH_HD constexpr std::uint64_t bits_of_nan(ElementType type) noexcept {
  if (type == ElementType::float64) return 0x7FF8000000000000U;
  if (type == ElementType::float32) return 0x7FC00000U;
  return type == ElementType::bfloat16 ? 0x7FC0U : 0x7E00U;
}

/// Whether the pattern is a NaN's.
CINCH_HD constexpr bool is_nan_pattern(ElementType type, std::uint64_t bits) noexcept {
  return (bits & ~bits_of_minus_zero(type)) > bits_of_infinity(type);
}

/// Whether the pattern's value is above 0, subnormal values included; false for NaN.
CINCH_HD constexpr bool is_positive_pattern(ElementType type, std::uint64_t bits) noexcept {
  return bits != 0 && bits <= bits_of_infinity(type);
}

/// Whether the pattern's value is below 0; false for NaN.
CINCH_HD constexpr bool is_negative_pattern(ElementType type, std::uint64_t bits) noexcept {
  return bits > bits_of_minus_zero(type) && !is_nan_pattern(type, bits);
}

/// Value of a floating-point bit pattern; that of float64 rounded to the nearest float32.
/// @pre is_float(type)
inline float value_of(ElementType type, std::uint64_t bits) noexcept {
  if (type == ElementType::float64) return static_cast<float>(std::bit_cast<double>(bits));
  if (type == ElementType::float32) return float_of_bits(static_cast<std::uint32_t>(bits));
  const auto half = static_cast<std::uint16_t>(bits);
  return type == ElementType::bfloat16 ? float_of_bf16(half) : float_of_f16(half);
}

/// Nearest bit pattern of a finite value. @pre is_float(type)
inline std::uint64_t bits_of(ElementType type, float value) noexcept {
  if (type == ElementType::float64) return std::bit_cast<std::uint64_t>(double{value});
  if (type == ElementType::float32) return float_bits(value);
  return type == ElementType::bfloat16 ? bf16_nearest(value) : f16_nearest(value);
}

}  // namespace cinch::codecs
