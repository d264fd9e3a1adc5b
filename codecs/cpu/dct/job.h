// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/formats/dct.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Facts that all tasks of one encode or decode share. A task is a range of chunks.
struct DctJob {
  /// Columns of the blocks that are processed side by side, a chunk's. Row i of block b begins at
  /// i * kColumns + 8 * b.
  static constexpr std::int64_t kColumns = kDctChunk * kDctEdge;

  const Description& what;
  const DctParameters& parameters;
  DctGeometry geometry;
  std::int64_t readable;  ///< one past the last element in memory
  /// Whether a row's elements lie apart. If so, planes are gathered first and scattered last, as
  /// many as make whole chunks.
  bool gathers;
  PlaneLayout tile_layout;  ///< of gathered planes

  DctJob(const Description& description, const DctParameters& dct_parameters) noexcept
      : what(description),
        parameters(dct_parameters),
        geometry(description.layout),
        readable(reach(description.layout)),
        gathers(geometry.column_stride() != 1 && description.layout.plane_size() > 1),
        tile_layout(description.layout) {
    const auto& extent = tile_layout.extent;
    tile_layout.stride = {extent[1] * extent[2], extent[2], 1};
    tile_layout.outer = kDctChunk;
    tile_layout.inner = 1;
    tile_layout.inner_stride = 0;
    tile_layout.outer_stride = tile_layout.plane_size();
  }

  /// Ranges begin at multiples of this: the chunks of kDctChunk planes if planes are gathered.
  std::int64_t grain() const noexcept {
    return gathers ? geometry.blocks_of_plane() : std::int64_t{16};
  }
  /// Offset of a chunk behind the index, if all chunks before it have their largest size.
  std::int64_t room_before(std::int64_t chunk) const noexcept {
    const std::int64_t block = chunk * kDctChunk;
    return block + geometry.elements_before(block) * std::int64_t(element_size(what.type));
  }
};

}  // namespace cinch::codecs::cpu
