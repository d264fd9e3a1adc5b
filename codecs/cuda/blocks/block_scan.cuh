// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"

namespace cinch::codecs::cuda {

/// The sum over the lanes up to the calling one. All lanes of the warp must call it.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, step);
    if (threadIdx.x % kWarp >= step) value += before;
  }
  return value;
}

/// Prefix sums over the `kThreads` threads of a block. All threads of the block must call it.
template <unsigned kThreads>
class BlockScan {
 public:
  /// @param total set to the sum over all threads
  /// @return the sum over the threads before this one
  template <typename T>
  static __device__ __forceinline__ T exclusive(T value, T& total) {
    constexpr unsigned kWarps = kThreads / kWarp;
    __shared__ T sums[kWarps];
    const unsigned lane = threadIdx.x % kWarp;
    const unsigned warp = threadIdx.x / kWarp;
    const T sum = warp_sum(value);
    __syncthreads();  // all threads have read the last call's sums
    if (lane == kWarp - 1) sums[warp] = sum;
    __syncthreads();
    T before = 0;
    if constexpr (sizeof(T) == 4) {
      static_assert(kWarps <= kWarp);
      const auto other = static_cast<unsigned>(lane < kWarps ? sums[lane] : 0);
      before = static_cast<T>(__reduce_add_sync(kAllLanes, lane < warp ? other : 0U));
      total = static_cast<T>(__reduce_add_sync(kAllLanes, other));
    } else {
      total = 0;
      for (unsigned w = 0; w < kWarps; ++w) {
        if (w < warp) before += sums[w];
        total += sums[w];
      }
    }
    return before + sum - value;
  }
};

}  // namespace cinch::codecs::cuda
