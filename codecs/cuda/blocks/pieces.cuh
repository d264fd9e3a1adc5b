// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"

/// For kernels that any number of blocks of threads can run: they take one piece of work after
/// another.
namespace cinch::codecs::cuda {

/// Calls `take` with the number of each of `pieces` that the block of threads takes. All threads of
/// the block must call it, and `take` may use the same shared memory for each piece.
/// @pre pieces is at most kMaxBlocks
template <typename Take>
__device__ __forceinline__ void take_pieces(std::int64_t pieces, const Take& take) {
  const auto count = static_cast<unsigned>(pieces);
#pragma unroll 1
  for (unsigned piece = blockIdx.x; piece < count; piece += gridDim.x) {
    take(piece);
    if (gridDim.x < count) __syncthreads();
  }
}

/// Calls `take` with each number below `count` that the thread takes.
template <typename Take>
__device__ __forceinline__ void take_items(std::int64_t count, const Take& take) {
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    take(i);
  }
}

}  // namespace cinch::codecs::cuda
