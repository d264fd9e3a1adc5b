// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/elements/nearest.cuh"

namespace cinch::codecs::cuda {

/// The eight numbers of some columns, or eight times the number where there is no array.
__device__ __forceinline__ void load_columns(const float* array, std::uint32_t first, float none,
                                             float (&x)[kStretch]) {
  if (array != nullptr) return load_eight<ElementType::float32>(array + first, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) x[j] = none;
}

}  // namespace cinch::codecs::cuda
