// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codecs/formats/division/division.h"

/// DIVISION on one plane, as section 4.1 and `codecs/formats/division/division.h` define it. This
/// is the specification: every engine's bytes are checked against it.
namespace cinch::codecs::reference {

/// The means of a plane's blocks, before they are rounded. `x` has one entry an element, in logical
/// order.
std::vector<float> block_means(std::span<const float> x, const DivisionGeometry& geometry);

/// NearestUp: for each element, in logical order, the index of the block that covers it.
std::vector<std::int64_t> covering_blocks(const DivisionGeometry& geometry);

/// One plane, compressed.
struct DivisionPlane {
  std::vector<std::uint16_t> means;  ///< bfloat16, one a block
  AffineRange range;
  std::vector<std::uint8_t> codes;  ///< one an element
};

/// Alg. 1. `x` and `draws` (each 0..65535) have one entry an element, in logical order.
/// @pre every |x| <= kAffineMaxMagnitude
DivisionPlane encode_plane(std::span<const float> x, const DivisionGeometry& geometry, int bits,
                           std::span<const std::uint32_t> draws);

/// The encoding of a plane that can't be held.
DivisionPlane poisoned_plane(std::int64_t blocks, std::int64_t size);

/// Eq. 10.
std::vector<float> decode_plane(const DivisionPlane& plane, const DivisionGeometry& geometry);

}  // namespace cinch::codecs::reference
