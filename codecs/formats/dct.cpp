// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/dct.h"

#include <array>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {

DctGeometry::DctGeometry(const PlaneLayout& layout) noexcept
    : is_rows_(layout.extent[0] == 1 && layout.extent[1] == 1),
      edge_across_(is_rows_ ? kDctBlock : kDctEdge) {
  if (!is_rows_) {
    depth_ = layout.extent[0];
    height_ = layout.extent[1];
    width_ = layout.extent[2];
    images_ = layout.planes() * depth_;
    inner_ = layout.inner;
    outer_stride_ = layout.outer_stride;
    inner_stride_ = layout.inner_stride;
    depth_stride_ = layout.stride[0];
    row_stride_ = layout.stride[1];
    column_stride_ = layout.stride[2];
    blocks_down_ = (height_ + kDctEdge - 1) / kDctEdge;
    blocks_across_ = (width_ + kDctEdge - 1) / kDctEdge;
    return;
  }
  if (layout.extent[2] > 1) {
    images_ = layout.planes();
    inner_ = layout.inner;
    width_ = layout.extent[2];
    outer_stride_ = layout.outer_stride;
    inner_stride_ = layout.inner_stride;
    column_stride_ = layout.stride[2];
  } else if (layout.inner != 1) {
    images_ = layout.outer;
    width_ = layout.inner;
    outer_stride_ = layout.outer_stride;
    column_stride_ = layout.inner_stride;
  } else {
    images_ = 1;
    width_ = layout.outer;
    outer_stride_ = 0;
    column_stride_ = layout.outer_stride;
  }
  blocks_across_ = (width_ + kDctBlock - 1) / kDctBlock;
}

void DctGeometry::list(std::int64_t first, std::int64_t count, Block* blocks) const noexcept {
  const std::int64_t last_columns = width_ - (blocks_across_ - 1) * edge_across_;
  for (std::int64_t b = 0; b < count;) {
    const std::int64_t across = (first + b) % blocks_across_;
    const Block begin = block(first + b);
    const std::int64_t run = blocks_across_ - across;
    for (std::int64_t i = 0; i < run && b < count; ++i, ++b) {
      blocks[b] = {begin.offset + i * edge_across_ * column_stride_, begin.rows,
                   i + 1 < run ? edge_across_ : last_columns};
    }
  }
}

bool DctCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t DctCodec::encoded_bytes(const Description& what) const noexcept {
  const DctGeometry geometry(what.layout);
  return static_cast<std::size_t>(payload(geometry) + geometry.blocks() +
                                  what.layout.elements() * std::int64_t(element_size(what.type)));
}

void DctCodec::write_header(const Description& what, std::int64_t size, std::byte* out) noexcept {
  const auto header =
      dct_header(what.type, DctGeometry(what.layout).blocks(), what.layout.elements(), size);
  static_assert(sizeof header == kDctHeaderBytes);
  std::memcpy(out, header.data(), sizeof header);
}

std::int64_t DctCodec::read_header(const Description& what, std::span<const std::byte> in,
                                   Reads reads) const noexcept {
  if (reads != Reads::values || !accepts(what)) return -1;
  const DctGeometry geometry(what.layout);
  const auto expected = dct_header(what.type, geometry.blocks(), what.layout.elements(), 0);
  return stated_size(expected, in, payload(geometry));
}

}  // namespace cinch::codecs
