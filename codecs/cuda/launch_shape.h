// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/runtime.h"
#include "codecs/cuda/succeeds.h"

/// Computes launch parameters from shapes.
namespace cinch::codecs::cuda {

/// Limits of a device. A codec reads those of the device that is current when it is made.
struct DeviceLimits {
  std::size_t shared_bytes = std::size_t{48} << 10;  ///< of one block, at most
  unsigned processors = 1;                           ///< streaming multiprocessors
};

inline DeviceLimits device_limits() noexcept {
  DeviceLimits limits;
  int device = 0;
  int value = 0;
  if (!succeeds([&] { return cudaGetDevice(&device); })) return limits;
  const auto find = [&](cudaDeviceAttr which) {
    return succeeds([&] { return cudaDeviceGetAttribute(&value, which, device); });
  };
  if (find(cudaDevAttrMaxSharedMemoryPerBlockOptin)) {
    limits.shared_bytes = static_cast<std::size_t>(value);
  }
  if (find(cudaDevAttrMultiProcessorCount)) limits.processors = static_cast<unsigned>(value);
  return limits;
}

/// The most blocks that a grid may have.
inline constexpr std::int64_t kMaxBlocks = 0x7FFFFFFF;

/// Number of blocks that cover `items` when each takes `each`. @pre it is at most kMaxBlocks
constexpr unsigned blocks_for(std::int64_t items, std::int64_t each) noexcept {
  return static_cast<unsigned>((items + each - 1) / each);
}

/// Number of blocks for a kernel that takes any number of them: `wanted`, or fewer in one of
/// Cinch's own streams. @pre wanted is at most kMaxBlocks
inline unsigned blocks_in(Stream stream, std::int64_t wanted, unsigned threads) noexcept {
  const std::int64_t most = OwnStreams::most_threads(stream) / threads;
  return static_cast<unsigned>(std::min(wanted, std::max<std::int64_t>(most, 1)));
}

/// Launches a kernel that has a block for each of `count` pieces of work; in one of Cinch's own
/// streams a few of them at a time. @param launch_some (first piece, blocks) -> whether it
/// succeeded
template <typename Launch>
bool in_waves(Stream stream, unsigned count, unsigned threads, const Launch& launch_some) noexcept {
  // A launch takes the host about 3 us. So there are few, and more blocks in each if need be.
  constexpr unsigned kMostWaves = 32;
  const unsigned each = std::max(blocks_in(stream, count, threads), blocks_for(count, kMostWaves));
  for (unsigned first = 0; first < count; first += each) {
    if (!launch_some(first, std::min(each, count - first))) return false;
  }
  return true;
}

}  // namespace cinch::codecs::cuda
