// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/ScalarType.h>

namespace cinch::hooks {

/// How a number c makes y of x.
enum class NumberForm : std::uint8_t {
  sum,         ///< x + c
  difference,  ///< x - c
  remainder,   ///< c - x
};

/// The number with the fewest decimal digits that makes a sample of `y` of `x`, bit for bit. Others
/// may make the same sample: who needs all of `y` has to compare all of it. nullopt: none was
/// found.
/// @param x, y `n` elements of `type`, which is float32, bfloat16 or float16
std::optional<float> inferred_number(NumberForm form, c10::ScalarType type, const void* x,
                                     const void* y, std::int64_t n);

}  // namespace cinch::hooks
