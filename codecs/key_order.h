// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "codecs/element_bits.h"

/// Bit patterns in the order of their values. A pattern's key is the pattern as a signed integer,
/// in which negative patterns have all bits but the sign inverted.
namespace cinch::codecs {

/// The types whose patterns have keys: those that is_quantizable().
inline constexpr std::array kKeyedTypes = {ElementType::float32, ElementType::bfloat16,
                                           ElementType::float16};

/// @pre is_quantizable(type)
inline std::uint32_t pattern_of(ElementType type, std::int64_t key) noexcept {
  const auto sign = static_cast<std::uint32_t>(bits_of_minus_zero(type));
  return static_cast<std::uint32_t>(key >= 0 ? key : sign | (-1 - key));
}

/// @pre is_quantizable(type)
CINCH_HD inline std::int64_t key_of(ElementType type, std::uint64_t pattern) noexcept {
  const std::uint64_t sign = bits_of_minus_zero(type);
  return static_cast<std::int64_t>(pattern < sign ? pattern : ~(pattern & ~sign));
}

inline std::int64_t key_of_infinity(ElementType type) noexcept {
  return static_cast<std::int64_t>(bits_of_infinity(type));
}

inline std::int64_t key_of_minus_infinity(ElementType type) noexcept {
  return -1 - key_of_infinity(type);
}

/// The smallest key for whose value `holds` is true, between the keys of -infinity and +infinity;
/// one past the latter if there is none. @pre `holds` is true for all larger keys
template <class F>
std::int64_t first_key(ElementType type, const F& holds) noexcept {
  std::int64_t begin = key_of_minus_infinity(type);
  std::int64_t end = key_of_infinity(type) + 1;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (holds(value_of(type, pattern_of(type, middle)))) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

}  // namespace cinch::codecs
