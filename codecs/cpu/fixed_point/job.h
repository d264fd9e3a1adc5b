// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/fixed_point/channels.h"
#include "codecs/formats/fixed_point.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Some chunks of some channels.
struct FixedPointTask {
  std::int64_t first_channel;
  std::int64_t channels;
  std::int64_t begin;  ///< first element in each channel; a chunk begins there
  std::int64_t count;  ///< elements in each channel
};

/// How work is cut into tasks: `group` channels and `chunks` chunks each. Tasks of neighbouring
/// channels follow each other.
struct FixedPointCut {
  std::int64_t group;
  std::int64_t chunks;
};

/// Facts that all tasks of one encode or decode share, and how it is cut into tasks: so that memory
/// is accessed in its own order as far as possible, and again only while it is cached.
struct FixedPointJob {
  /// Where a channel's elements lie, and how they are processed.
  enum class Way : std::uint8_t {
    planes,   ///< in long runs: processed in place
    columns,  ///< beside the other channels': tiles of many channels are transposed
    tiles     ///< anywhere: gathered into tiles
  };

  const Description& what;
  ChannelWalk walk;
  std::int64_t elements;  ///< of one channel
  std::int64_t chunks;    ///< of one channel
  std::int64_t readable;  ///< one past the last element in memory
  Way way;
  FixedPointCut survey_cut;
  FixedPointCut cut;       ///< for encoding and decoding
  std::int64_t piece = 0;  ///< elements of each channel in a tile: a chunk, or a part of one

  explicit FixedPointJob(const Description& description) noexcept
      : what(description),
        walk(description.layout),
        elements(channel_elements(description.layout)),
        chunks(channel_chunks(elements)),
        readable(reach(description.layout)) {
    const std::int64_t inner = description.layout.inner;
    const std::int64_t run = walk.run();
    // A task has the planes of a few samples, of some channels.
    const std::int64_t plane_chunks = std::clamp<std::int64_t>(
        4 * run / kFixedPointChunk, 1, std::max<std::int64_t>(1, 32768 / kFixedPointChunk));
    survey_cut = {inner > 1 ? (run < 256 ? 32 : 8) : 1, plane_chunks};
    piece = kFixedPointChunk;
    if (inner > 1 && description.layout.inner_stride == 1 && walk.inner_stride() != 1) {
      way = Way::columns;
      survey_cut = {512, 1};  // only extremes have to stay cached
      cut = {kMaxGroup, 1};   // some cache lines of every row, and few rows
      piece = 256;
    } else if (walk.inner_stride() == 1 && (run == elements || (run >= 256 && run % 8 == 0))) {
      way = Way::planes;
      cut = survey_cut;
    } else {
      way = Way::tiles;
      cut = {inner > 1 && run < kFixedPointChunk ? 32 : 1, 1};
    }
  }

  std::int64_t tasks(const FixedPointCut& c) const noexcept {
    return groups(c) * ((chunks + c.chunks - 1) / c.chunks);
  }
  /// Fewest tasks that are worth a thread.
  std::int64_t grain(const FixedPointCut& c) const noexcept {
    constexpr std::int64_t kElements = 32768;
    const std::int64_t task = std::min(elements, c.chunks * kFixedPointChunk) * c.group;
    return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, task));
  }
  FixedPointTask task(const FixedPointCut& c, std::int64_t t) const noexcept {
    const std::int64_t channel = t % groups(c) * c.group;
    const std::int64_t begin = t / groups(c) * c.chunks * kFixedPointChunk;
    return {channel, std::min(c.group, what.layout.channels() - channel), begin,
            std::min(c.chunks * kFixedPointChunk, elements - begin)};
  }

  /// Calls `f(channel, chunk, begin, count, offset)` for parts of chunks that are in one run of
  /// memory, in the order of memory: elements [begin, begin + count) of a chunk, from `offset` on.
  template <typename F>
  void for_each_part(const FixedPointTask& task, const F& f) const {
    const std::int64_t stride = walk.inner_stride();
    walk.for_each_run(
        task.begin, task.count, [&](std::int64_t at, std::int64_t count, std::int64_t offset) {
          const std::int64_t first = task.begin + at;
          for (std::int64_t c = task.first_channel; c < task.first_channel + task.channels; ++c) {
            const std::int64_t base = c * what.layout.inner_stride + offset;
            for (std::int64_t m = first; m < first + count;) {
              const std::int64_t begin = m % kFixedPointChunk;
              const std::int64_t some = std::min(kFixedPointChunk - begin, first + count - m);
              f(c, m / kFixedPointChunk, begin, some, base + (m - first) * stride);
              m += some;
            }
          }
        });
  }

  static constexpr std::int64_t kMaxGroup = 128;

 private:
  std::int64_t groups(const FixedPointCut& c) const noexcept {
    return (what.layout.channels() + c.group - 1) / c.group;
  }
};

/// What the survey finds for each channel and chunk, at [chunk * channels + channel].
struct ChannelSurvey {
  float* min;
  float* max;
  std::int32_t* largest;  ///< bits of the largest magnitude; those of NaNs are larger than any
  std::int32_t* nonzero;
};

}  // namespace cinch::codecs::cpu
