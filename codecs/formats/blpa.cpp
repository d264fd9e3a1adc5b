// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/blpa.h"

#include <cstring>
#include <limits>

#include "codecs/layout.h"

namespace cinch::codecs {

BlpaChunks::BlpaChunks(const PlaneLayout& layout) noexcept
    : plane_size(layout.plane_size()), planes(layout.outer), pieces(1), whole(1), count(0) {
  if (plane_size > kElements) {
    pieces = (plane_size - 1) / kElements + 1;
    count = planes * pieces;
  } else {
    whole = kElements / plane_size;
    count = (planes + whole - 1) / whole;
  }
}

BlpaSections::BlpaSections(const BlpaParameters& parameters, const PlaneLayout& layout,
                           bool has_signs) noexcept {
  signs = 4 * layout.channels();
  codes = signs + (has_signs ? bytes_for_bits(layout.elements()) : 0);
  end = codes + bytes_for_bits(layout.elements() * parameters.bits);
}

bool BlpaCodec::accepts(const Description& what) const noexcept {
  // is_valid allows any number of channels in a tensor without elements.
  return is_quantizable(what.type) && is_valid(what.layout) &&
         what.layout.channels() <= std::numeric_limits<std::int64_t>::max() / 128;
}

std::size_t BlpaCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(
      BlpaSections(parameters_, what.layout, parameters_.with_sign).end);
}

bool BlpaCodec::needs_signs(const PlaneLayout& layout, const std::byte* grids) const noexcept {
  if (!parameters_.with_sign) return false;
  for (std::int64_t c = 0; c < layout.channels(); ++c) {
    BlpaGrid grid;
    std::memcpy(&grid, grids + 4 * c, sizeof grid);
    if (!keeps_signs(grid, parameters_.bits)) return true;
  }
  return false;
}

bool BlpaCodec::can_decode(const Description& what, std::span<const std::byte> in,
                           Reads reads) const noexcept {
  if (reads != Reads::values && !(reads == Reads::sign && parameters_.with_sign)) return false;
  if (!accepts(what)) return false;
  if (in.size() < static_cast<std::size_t>(BlpaSections(parameters_, what.layout, false).end)) {
    return false;
  }
  const BlpaSections at(parameters_, what.layout, needs_signs(what.layout, in.data()));
  return in.size() >= static_cast<std::size_t>(at.end);
}

}  // namespace cinch::codecs
