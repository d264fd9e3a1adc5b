// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"
#include "codecs/float_formats.h"

namespace cinch::codecs::cuda {

/// An integer that compares as the float does, for atomics; of_ordered gives the float back.
__device__ __forceinline__ std::uint32_t ordered(float x) {
  const std::uint32_t bits = float_bits(x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float of_ordered(std::uint32_t place) {
  return float_of_bits(place >> 31 != 0 ? place & 0x7FFFFFFFU : ~place);
}

/// Gives each of `lanes` neighbouring lanes (a power of two) the smallest `min` and the largest
/// `max` among them. All lanes of the warp must call it.
template <typename T>
__device__ __forceinline__ void join_bounds(T& min, T& max, unsigned lanes = kWarp) {
  for (unsigned step = lanes / 2; step > 0; step /= 2) {
    const T other_min = __shfl_xor_sync(kAllLanes, min, static_cast<int>(step));
    const T other_max = __shfl_xor_sync(kAllLanes, max, static_cast<int>(step));
    min = other_min < min ? other_min : min;
    max = other_max > max ? other_max : max;
  }
}

}  // namespace cinch::codecs::cuda
