// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/layout.h"

/// Element access of the reference engine: one element at a time, by its logical index.
namespace cinch::codecs::reference {

/// Memory offset, in elements, of the element at logical index `index`.
inline std::int64_t offset_of(const PlaneLayout& layout, std::int64_t index) noexcept {
  std::int64_t rest = index % layout.plane_size();
  std::int64_t offset = plane_offset(layout, index / layout.plane_size());
  for (int axis = 2; axis >= 0; --axis) {
    offset += rest % layout.extent[axis] * layout.stride[axis];
    rest /= layout.extent[axis];
  }
  return offset;
}

/// Bit pattern of the element at memory offset `offset`, zero-extended.
inline std::uint64_t load_bits(const void* source, std::int64_t offset, std::size_t size) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(source) + offset * std::int64_t(size), size);
  return bits;
}

inline void store_bits(void* target, std::int64_t offset, std::size_t size,
                       std::uint64_t bits) noexcept {
  std::memcpy(static_cast<std::byte*>(target) + offset * std::int64_t(size), &bits, size);
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

/// Sets the field of `width` bits at bit `position`. @pre the field is zero
inline void put_bits(std::span<std::byte> stream, std::int64_t position, int width,
                     unsigned value) noexcept {
  for (int i = 0; i < width; ++i) {
    const std::int64_t bit = position + i;
    stream[bit / 8] |= static_cast<std::byte>((value >> i & 1U) << (bit % 8));
  }
}

inline unsigned get_bits(std::span<const std::byte> stream, std::int64_t position,
                         int width) noexcept {
  unsigned value = 0;
  for (int i = 0; i < width; ++i) {
    const std::int64_t bit = position + i;
    value |= (std::to_integer<unsigned>(stream[bit / 8]) >> (bit % 8) & 1U) << i;
  }
  return value;
}

}  // namespace cinch::codecs::reference
