// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/codec.h"
#include "codecs/element_bits.h"
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
