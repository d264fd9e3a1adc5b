// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"
#include "codecs/float_formats.h"

namespace cinch::codecs::cuda {

/// A float's place in the order of numbers, as an integer that atomics can compare.
__device__ __forceinline__ std::uint32_t ordered(float x) {
  const std::uint32_t bits = float_bits(x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float of_ordered(std::uint32_t place) {
  return float_of_bits(place >> 31 != 0 ? place & 0x7FFFFFFFU : ~place);
}

}  // namespace cinch::codecs::cuda
