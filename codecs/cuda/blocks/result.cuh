// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/device.h"

namespace cinch::codecs::cuda {

/// Writes the encoded size, after all else that this thread and earlier kernels wrote of the
/// result: a host that sees the size sees that too.
__device__ __forceinline__ void publish(std::int64_t bytes, Result* result) {
  __threadfence_system();
  *static_cast<volatile std::uint64_t*>(&result->bytes) = static_cast<std::uint64_t>(bytes);
}

}  // namespace cinch::codecs::cuda
