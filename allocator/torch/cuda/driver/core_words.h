// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// PyTorch's device pointer as the core's type.
inline Address to_address(const void* pointer) noexcept {
  return reinterpret_cast<Address>(pointer);
}

/// A CUDA stream as the core's type.
inline Stream to_stream(cudaStream_t stream) noexcept {
  return reinterpret_cast<Stream>(stream);
}

}  // namespace cinch::allocator
