// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/window_index.h"

#include <bit>
#include <cstring>
#include <limits>

#include "codecs/layout.h"

namespace cinch::codecs {

WindowShape WindowShape::of(const std::array<std::int32_t, 3>& extent) noexcept {
  WindowShape shape;
  shape.extent = extent;
  // Factor by factor, so that the product of three large extents can't overflow.
  std::int64_t offsets = 1;
  for (const std::int32_t k : extent) {
    offsets *= k;
    if (offsets > 1 << kWindowMaxBits) {
      shape.bits = kWindowMaxBits + 1;
      return shape;
    }
  }
  shape.bits = std::bit_width(static_cast<std::uint64_t>(offsets - 1));
  return shape;
}

void WindowShape::write(std::byte* out) const noexcept {
  std::memset(out, 0, kWindowHeaderBytes);
  out[0] = std::byte{kWindowVersion};
  out[1] = static_cast<std::byte>(bits);
  std::memcpy(out + 4, extent.data(), sizeof extent);
}

bool WindowShape::read(const std::byte* in) noexcept {
  std::memcpy(extent.data(), in + 4, sizeof extent);
  for (const std::int32_t k : extent) {
    if (k < 1) return false;
  }
  bits = of(extent).bits;
  return in[0] == std::byte{kWindowVersion} && in[1] == static_cast<std::byte>(bits) &&
         bits <= kWindowMaxBits;
}

bool WindowIndexCodec::accepts(const Description& what) const noexcept {
  if (what.type != ElementType::int64 || !is_valid(what.layout)) return false;
  PlaneLayout input;
  input.extent = what.index_extent;
  return is_valid(input) && input.plane_size() <= std::numeric_limits<std::int32_t>::max();
}

std::int64_t WindowIndexCodec::codes_offset(const PlaneLayout& layout) noexcept {
  return kWindowHeaderBytes + 4 * (layout.extent[0] + layout.extent[1] + layout.extent[2]);
}

std::int64_t WindowIndexCodec::encoded_size(const PlaneLayout& layout, int bits) noexcept {
  return codes_offset(layout) + bytes_for_bits(layout.elements() * bits);
}

std::size_t WindowIndexCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(encoded_size(what.layout, kWindowMaxBits));
}

bool WindowIndexCodec::read_tables(const Description& what, std::span<const std::byte> in,
                                   Reads reads, WindowShape& shape,
                                   std::array<std::span<std::int32_t>, 3> origins) const {
  if (reads == Reads::nothing || in.size() < static_cast<std::size_t>(codes_offset(what.layout))) {
    return false;
  }
  if (!shape.read(in.data())) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (shape.extent[axis] > what.index_extent[axis]) return false;
  }
  if (in.size() < static_cast<std::size_t>(encoded_size(what.layout, shape.bits))) return false;
  const std::byte* next = in.data() + kWindowHeaderBytes;
  for (int axis = 0; axis < 3; ++axis) {
    std::memcpy(origins[axis].data(), next, origins[axis].size_bytes());
    next += origins[axis].size_bytes();
    for (const std::int32_t origin : origins[axis]) {
      if (origin < 0 || origin >= what.index_extent[axis]) return false;
    }
  }
  return true;
}

}  // namespace cinch::codecs
