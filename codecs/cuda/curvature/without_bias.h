// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/arithmetic/curvature.h"
#include "codecs/cuda/codec.h"

/// Smooth functions of decoded values without their bias (codecs/arithmetic/curvature.h), in one
/// pass.
namespace cinch::codecs::cuda {

/// GroupSteps in device memory, as they lie in encoded data: see EvenErrors.
struct GroupRanges {
  const void* ranges = nullptr;  ///< an AffineRange a group, aligned to 4 bytes
  GroupOrder order;              ///< of groups of a multiple of 8
};

/// Neighbouring elements of a storage: `rows` times `row` of them, whose beginnings are `stride`
/// elements apart.
struct Rows {
  std::int64_t first = 0;  ///< where the first one lies in the storage, in elements
  std::int64_t rows = 1;
  std::int64_t row = 0;
  std::int64_t stride = 0;
};

/// Enqueues y = f(x) - f''(x) step^2 / 24 for elements of `type`: computed in float32 as
/// apply_without_bias of the host, bit for bit, and rounded to nearest.
/// @param type A type of floating point
/// @param x The first of the elements @param y Where they go, row behind row; not among x
/// @pre x and y are device memory, aligned to their elements
/// @return false when a kernel could not be launched, or for planes, or rows that are no
/// neighbours, of more than 2^29 elements; y may then hold garbage
bool apply_without_bias(Smooth function, ElementType type, const GroupRanges& of, const Rows& rows,
                        const void* x, void* y, Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
