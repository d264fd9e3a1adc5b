// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"

namespace cinch::codecs::cuda {

/// Sums over the threads of a block of `kThreads`, all of which have to call it.
template <unsigned kThreads>
class BlockScan {
 public:
  /// @return the sum of the threads before this one; `total` becomes that of all
  template <typename T>
  static __device__ __forceinline__ T exclusive(T value, T& total) {
    constexpr unsigned kWarps = kThreads / kWarp;
    __shared__ T sums[kWarps];
    const unsigned lane = threadIdx.x % kWarp;
    const unsigned warp = threadIdx.x / kWarp;
    T sum = value;
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const T before = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += before;
    }
    __syncthreads();  // the last call's sums have been read
    if (lane == kWarp - 1) sums[warp] = sum;
    __syncthreads();
    T before = 0;
    total = 0;
    for (unsigned w = 0; w < kWarps; ++w) {
      if (w < warp) before += sums[w];
      total += sums[w];
    }
    return before + sum - value;
  }
};

}  // namespace cinch::codecs::cuda
