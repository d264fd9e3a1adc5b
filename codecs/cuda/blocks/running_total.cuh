// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/device.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/host_device.h"

/// Places the blocks' outputs of different sizes one after another, in a single pass by decoupled
/// look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back",
/// 2016). Blocks take numbers as they start, so a block only waits for blocks that have started.
namespace cinch::codecs::cuda {

/// The state, in scratch memory. The `turns` follow it: one word for each block.
struct RunningTotal {
  unsigned long long next;
  unsigned long long reserved;

  CINCH_HD unsigned long long* turns() noexcept {
    return reinterpret_cast<unsigned long long*>(this + 1);
  }
  static constexpr std::size_t bytes(std::int64_t blocks) noexcept {
    return sizeof(RunningTotal) + sizeof(unsigned long long) * static_cast<std::size_t>(blocks);
  }
};

inline constexpr unsigned kTotalThreads = 256;

static __global__ void running_total_begin(RunningTotal* total, std::int64_t blocks) {
  if (blockIdx.x == 0 && threadIdx.x == 0) total->next = 0;
  take_items(blocks, [&](std::int64_t i) { total->turns()[i] = 0; });
}

/// Clears so many turns.
inline bool begin_total(Stream stream, RunningTotal* total, std::int64_t turns) noexcept {
  const unsigned blocks = blocks_in(stream, blocks_for(turns, kTotalThreads), kTotalThreads);
  return launch(running_total_begin, blocks, kTotalThreads, 0, stream, total, turns);
}

/// Gives the calling block the next number; all its threads get the same one.
__device__ __forceinline__ std::int64_t take_turn(RunningTotal* total) {
  __shared__ unsigned long long turn;
  if (threadIdx.x == 0) turn = atomicAdd(&total->next, 1ULL);
  __syncthreads();
  return static_cast<std::int64_t>(turn);
}

/// The upper two bits of a turn's word say what the others hold: nothing, the block's own number,
/// or the sum up to and including the block. One store writes both parts, so they always match.
inline constexpr unsigned long long kOwn = 1ULL << 62;
inline constexpr unsigned long long kSum = 2ULL << 62;

/// Lets later blocks know the block's `own` before the block calls add_to_total. One thread of it
/// must call this.
__device__ __forceinline__ void publish_own(unsigned long long* turns, std::int64_t turn,
                                            std::int64_t own) {
  atomicExch(turns + turn, (turn == 0 ? kSum : kOwn) | static_cast<unsigned long long>(own));
}

/// Adds the block's `own` to the total. All threads of the block must call it; it ends with a
/// barrier. @param published whether the block has called publish_own
/// @return the sum over all blocks before this one
__device__ __forceinline__ std::int64_t add_to_total(RunningTotal* total, std::int64_t turn,
                                                     std::int64_t own, bool published = false) {
  constexpr unsigned long long kNumber = kOwn - 1;
  __shared__ std::int64_t shared;
  unsigned long long* const turns = total->turns();
  if (!published && threadIdx.x == 0) publish_own(turns, turn, own);
  if (threadIdx.x < kWarp) {
    std::int64_t before = 0;
    for (std::int64_t last = turn - 1; last >= 0; last -= kWarp) {
      const std::int64_t at = last - threadIdx.x;
      unsigned long long word = kSum;
      do {
        if (at >= 0) word = *static_cast<volatile unsigned long long*>(turns + at);
      } while (__any_sync(kAllLanes, word >> 62 == 0) != 0);
      const unsigned sums = __ballot_sync(kAllLanes, word >> 62 == 2);
      const unsigned used =
          sums == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(sums)));
      auto number = static_cast<std::int64_t>(threadIdx.x < used ? word & kNumber : 0);
      for (int step = 16; step > 0; step /= 2) number += __shfl_xor_sync(kAllLanes, number, step);
      before += number;
      if (sums != 0) break;
    }
    if (threadIdx.x == 0) {
      if (turn > 0) atomicExch(turns + turn, kSum | static_cast<unsigned long long>(before + own));
      shared = before;
    }
  }
  __syncthreads();
  return shared;
}

}  // namespace cinch::codecs::cuda
