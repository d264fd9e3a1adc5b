// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/channels.h"
#include "codecs/fixed_point.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// How one encode or decode is cut into tasks. Task t does chunk t / groups of the channels of
/// group t % groups, so that neighbours in memory are done one after the other.
struct FixedPointJob {
  const Description& what;
  ChannelWalk walk;
  std::int64_t elements;    ///< of one channel
  std::int64_t chunks;      ///< of one channel
  std::int64_t readable;    ///< one past the last element in memory
  bool interleaved;         ///< a group's channels lie side by side
  std::int64_t group_size;  ///< channels that are encoded or decoded together
  std::int64_t piece;       ///< elements of each of them that are, a multiple of 8

  explicit FixedPointJob(const Description& description) noexcept
      : what(description),
        walk(description.layout),
        elements(channel_elements(description.layout)),
        chunks(channel_chunks(elements)),
        readable(reach(description.layout)) {
    const PlaneLayout& layout = description.layout;
    interleaved = layout.inner > 1 && layout.inner_stride == 1 && walk.inner_stride() != 1;
    group_size = 1;
    piece = kFixedPointChunk;
    if (interleaved) {
      // Some cache lines of every row, and few enough rows for a tile to stay near.
      group_size = kMaxGroup;
      piece = 256;
    } else if (layout.inner > 1 && layout.plane_size() < 64) {
      group_size = 32;  // small planes share blocks of random draws
    }
  }

  /// One task's channels and chunk.
  struct Task {
    std::int64_t first_channel;
    std::int64_t channels;
    std::int64_t chunk;
    std::int64_t begin;  ///< first element
    std::int64_t count;  ///< elements of each channel
  };

  Task task(std::int64_t group, std::int64_t t) const noexcept {
    const std::int64_t chunk = t / groups_of(group);
    const std::int64_t channel = t % groups_of(group) * group;
    return {channel, std::min(group, what.layout.channels() - channel), chunk,
            chunk * kFixedPointChunk, chunk_elements(elements, chunk)};
  }
  std::int64_t tasks(std::int64_t group) const noexcept { return chunks * groups_of(group); }
  /// Tasks that are worth a thread's while.
  std::int64_t grain(std::int64_t group) const noexcept {
    constexpr std::int64_t kElements = 32768;
    const std::int64_t task = std::min(elements, kFixedPointChunk) * group;
    return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, task));
  }
  /// Channels that are surveyed together: only their extremes have to stay near.
  std::int64_t survey_group() const noexcept { return interleaved ? 512 : group_size; }

  /// Where in memory elements of a channel lie if in one piece, else -1.
  std::int64_t contiguous_at(std::int64_t channel, std::int64_t begin,
                             std::int64_t count) const noexcept {
    if (walk.inner_stride() != 1 || begin % walk.run() + count > walk.run()) return -1;
    std::int64_t at = -1;
    walk.for_each_run(begin, count, [&](std::int64_t, std::int64_t, std::int64_t offset) {
      at = channel * what.layout.inner_stride + offset;
    });
    return at;
  }

  static constexpr std::int64_t kMaxGroup = 128;

 private:
  std::int64_t groups_of(std::int64_t group) const noexcept {
    return (what.layout.channels() + group - 1) / group;
  }
};

/// By channel and chunk, at [chunk * channels + channel].
struct ChannelSurvey {
  float* min;
  float* max;
  std::int32_t* largest;  ///< bits of the largest magnitude; those of NaNs are larger than any
  std::int32_t* nonzero;
};

}  // namespace cinch::codecs::cpu
