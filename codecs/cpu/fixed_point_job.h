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

/// How one encode or decode is cut into tasks. Task t does chunk t / groups() of the channels of
/// group t % groups(), so that neighbours in memory are done one after the other.
struct FixedPointJob {
  const Description& what;
  ChannelWalk walk;
  std::int64_t elements;    ///< of one channel
  std::int64_t chunks;      ///< of one channel
  std::int64_t readable;    ///< one past the last element in memory
  bool interleaved;         ///< a group's channels lie side by side
  std::int64_t group_size;  ///< channels that are done together

  explicit FixedPointJob(const Description& description) noexcept
      : what(description),
        walk(description.layout),
        elements(channel_elements(description.layout)),
        chunks(channel_chunks(elements)),
        readable(reach(description.layout)) {
    const PlaneLayout& layout = description.layout;
    interleaved = layout.inner > 1 && layout.inner_stride == 1 && walk.inner_stride() != 1;
    // Channels of small planes share blocks of random draws.
    const bool small = layout.inner > 1 && layout.plane_size() < kSmallPlane;
    group_size = interleaved || small ? kGroup : 1;
  }

  std::int64_t groups() const noexcept {
    return (what.layout.channels() + group_size - 1) / group_size;
  }
  std::int64_t tasks() const noexcept { return chunks * groups(); }
  /// Tasks that are worth a thread's while.
  std::int64_t grain() const noexcept {
    constexpr std::int64_t kElements = 32768;
    const std::int64_t task = std::min(elements, kFixedPointChunk) * group_size;
    return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, task));
  }

  /// One task's channels and chunk.
  struct Task {
    std::int64_t first_channel;
    std::int64_t channels;
    std::int64_t chunk;
    std::int64_t begin;  ///< first element
    std::int64_t count;  ///< elements of each channel
  };
  Task task(std::int64_t t) const noexcept {
    const std::int64_t chunk = t / groups();
    const std::int64_t first = t % groups() * group_size;
    return {first, std::min(group_size, what.layout.channels() - first), chunk,
            chunk * kFixedPointChunk, chunk_elements(elements, chunk)};
  }

  /// Where in memory the chunk lies if in one piece, else -1.
  std::int64_t contiguous_at(std::int64_t channel, std::int64_t begin,
                             std::int64_t count) const noexcept {
    if (walk.inner_stride() != 1 || begin % walk.run() + count > walk.run()) return -1;
    std::int64_t at = -1;
    walk.for_each_run(begin, count, [&](std::int64_t, std::int64_t, std::int64_t offset) {
      at = channel * what.layout.inner_stride + offset;
    });
    return at;
  }

  static constexpr std::int64_t kGroup = 32;
  static constexpr std::int64_t kSmallPlane = 64;
};

/// By channel and chunk, at [chunk * channels + channel].
struct ChannelSurvey {
  float* min;
  float* max;
  std::int32_t* largest;  ///< bits of the largest magnitude; those of NaNs are larger than any
  std::int32_t* nonzero;
};

}  // namespace cinch::codecs::cpu
