// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/formats/blpa.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Facts that all tasks share that sum the channels of a source. A task is a chunk of one channel
/// or of some neighbouring ones.
struct BlpaSurvey {
  /// How a chunk's elements are reached.
  enum class Way {
    in_place,     ///< they lie side by side
    staged,       ///< planes that are dense, but apart, are copied together
    interleaved,  ///< channels lie side by side: they are summed together
    gathered,     ///< anything else
  };
  static constexpr std::int64_t kChannels = 16;

  const PlaneLayout& layout;
  BlpaChunks chunks;
  Way way;
  std::int64_t at_once;    ///< channels of a task
  std::int64_t blocks;     ///< number of blocks of at_once channels
  double* sums = nullptr;  ///< by channel and chunk; NaN where a channel can't be held
  double* squares = nullptr;

  explicit BlpaSurvey(const PlaneLayout& layout_to_sum) noexcept
      : layout(layout_to_sum), chunks(layout_to_sum), way(way_of(layout, chunks)) {
    at_once = way == Way::in_place ? 1 : std::clamp<std::int64_t>(layout.inner, 1, kChannels);
    blocks = (layout.inner + at_once - 1) / at_once;
  }

  std::int64_t tasks() const noexcept { return blocks * chunks.count; }

  struct Place {
    std::int64_t chunk;
    std::int64_t block;  ///< of at_once channels
  };
  /// The place of a task; tasks are in the order of memory.
  Place place(std::int64_t task) const noexcept {
    const std::int64_t piece = task % chunks.pieces;
    const std::int64_t rest = task / chunks.pieces;
    return {rest / blocks * chunks.pieces + piece, rest % blocks};
  }

  /// Length of `sums`, and of `squares`.
  std::int64_t numbers() const noexcept { return layout.channels() * chunks.count; }

 private:
  static Way way_of(const PlaneLayout& layout, const BlpaChunks& chunks) noexcept {
    if (layout.inner > 1 && layout.inner_stride == 1) return Way::interleaved;
    if (!has_dense_planes(layout)) return Way::gathered;
    const bool alone = chunks.pieces > 1 || chunks.whole == 1;
    return alone || (layout.inner == 1 && layout.is_contiguous()) ? Way::in_place : Way::staged;
  }
};

}  // namespace cinch::codecs::cpu
