// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::codecs {

/// Calls f with a null pointer to the unsigned integer type of `size` bytes (1, 2, 4 or 8), for
/// code that only moves or compares elements.
template <typename F>
auto with_pattern(std::size_t size, const F& f) {
  switch (size) {
    case 1:
      return f(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return f(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return f(static_cast<std::uint32_t*>(nullptr));
    default:
      return f(static_cast<std::uint64_t*>(nullptr));
  }
}

/// The same for the sizes of floating-point types: 2, 4 or 8.
template <typename F>
auto with_float_pattern(std::size_t size, const F& f) {
  switch (size) {
    case 2:
      return f(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return f(static_cast<std::uint32_t*>(nullptr));
    default:
      return f(static_cast<std::uint64_t*>(nullptr));
  }
}

}  // namespace cinch::codecs
