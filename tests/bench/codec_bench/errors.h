// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "codecs/codec.h"

/// How far decoded data are from their source.
namespace cinch::bench {

/// What decoding brings back of x: x itself, or 1 and 0 for x > 0 or lower < x < upper, for then
/// backward reads no more.
struct Restored {
  enum What { values, sign, interval };
  What what = values;
  float lower = 0;
  float upper = 0;
};

struct Errors {
  double relative = 0;  ///< ||x - decoded|| / ||x||, of what is restored
  double largest = 0;   ///< max |x - decoded|
};

/// @pre as many bytes of both
Errors errors_of(codecs::ElementType type, std::span<const std::byte> source,
                 std::span<const std::byte> decoded, const Restored& restored);

/// Root mean square of floating-point data; 1 for other types and for all zeros.
double root_mean_square(codecs::ElementType type, std::span<const std::byte> source);

}  // namespace cinch::bench
