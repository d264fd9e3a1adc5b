// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division.h"

#include <algorithm>

#include "codecs/layout.h"

namespace cinch::codecs {
DivisionGeometry::DivisionGeometry(const DivisionParameters& parameters,
                                   const std::array<std::int64_t, 3>& plane_extent) noexcept
    : extent(plane_extent), edge_ceil(parameters.edge_ceil) {
  for (int axis = 0; axis < 3; ++axis) {
    block[axis] = std::min(parameters.block, extent[axis]);
    blocks[axis] = (extent[axis] + (edge_ceil ? block[axis] - 1 : 0)) / block[axis];
  }
}

DivisionSections::DivisionSections(const DivisionParameters& parameters,
                                   const DivisionGeometry& geometry,
                                   const PlaneLayout& layout) noexcept {
  ranges = 2 * geometry.block_count() * layout.planes();
  signs = ranges + 4 * layout.planes();
  codes = signs + (parameters.with_sign ? bytes_for_bits(layout.elements()) : 0);
  end = codes + bytes_for_bits(layout.elements() * parameters.bits);
}

bool DivisionCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t DivisionCodec::encoded_bytes(const Description& what) const noexcept {
  const DivisionGeometry geometry(parameters_, what.layout.extent);
  return static_cast<std::size_t>(DivisionSections(parameters_, geometry, what.layout).end);
}

bool DivisionCodec::can_decode(const Description& what, std::size_t size,
                               Reads reads) const noexcept {
  if (reads != Reads::values && !(reads == Reads::sign && parameters_.with_sign)) return false;
  return accepts(what) && size >= encoded_bytes(what);
}

}  // namespace cinch::codecs
