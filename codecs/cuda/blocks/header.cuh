// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/result.cuh"
#include "codecs/formats/sized_header.h"

namespace cinch::codecs::cuda {

/// Writes a header, and its encoded size as the result's.
template <std::size_t kWords>
__device__ __forceinline__ void store_header(const SizedHeader<kWords>& header, std::byte* out,
                                             Result* result) {
  for (std::size_t i = 0; i < kWords; ++i) reinterpret_cast<std::int64_t*>(out)[i] = header[i];
  publish(header[kWords - 1], result);
}

}  // namespace cinch::codecs::cuda
