// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements.cuh"
#include "codecs/philox.h"

namespace cinch::codecs::cuda {

/// The draws of the eight elements from logical index `k` on, wherever `k` lies.
__device__ __forceinline__ void draw_stretch(RandomKey key, std::uint64_t k,
                                             std::uint32_t (&draws)[kStretch]) {
  philox::Block block = philox::draw_block(key, k / 8);
  const auto skipped = static_cast<unsigned>(k % 8);
  if (skipped == 0) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) draws[j] = block.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
    return;
  }
  const philox::Block next = philox::draw_block(key, k / 8 + 1);
#pragma unroll
  for (unsigned j = 0; j < kStretch; ++j) {
    // No index that is known only at run time: that would put the words into local memory.
    const unsigned lane = skipped + j;
    const philox::Block& from = lane < 8 ? block : next;
    const unsigned pair = lane % 8 / 2;
    const std::uint32_t low = pair % 2 == 0 ? from.word[0] : from.word[1];
    const std::uint32_t high = pair % 2 == 0 ? from.word[2] : from.word[3];
    draws[j] = (pair < 2 ? low : high) >> (lane % 2 * 16) & 0xFFFFU;
  }
}

}  // namespace cinch::codecs::cuda
