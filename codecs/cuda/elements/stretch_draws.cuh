// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/elements.cuh"
#include "codecs/philox.h"

namespace cinch::codecs::cuda {

/// Random draws for the eight elements from logical index `k` on, for any `k`.
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
    // Selects the words by value: indexing with a variable would put them into local memory.
    const unsigned lane = skipped + j;
    const bool here = lane < 8;
    const unsigned pair = lane % 8 / 2;
    const std::uint32_t even = here ? block.word[0] : next.word[0];
    const std::uint32_t odd = here ? block.word[1] : next.word[1];
    const std::uint32_t late_even = here ? block.word[2] : next.word[2];
    const std::uint32_t late_odd = here ? block.word[3] : next.word[3];
    const std::uint32_t low = pair % 2 == 0 ? even : odd;
    const std::uint32_t high = pair % 2 == 0 ? late_even : late_odd;
    draws[j] = (pair < 2 ? low : high) >> (lane % 2 * 16) & 0xFFFFU;
  }
}

}  // namespace cinch::codecs::cuda
