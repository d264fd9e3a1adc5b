// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "allocator/driver.h"

namespace cinch::allocator {

/// A device pointer of PyTorch's as the core names it.
inline Address to_address(const void* pointer) noexcept {
  return reinterpret_cast<Address>(pointer);
}

/// A CUDA stream as the core names it.
inline Stream to_stream(cudaStream_t stream) noexcept {
  return reinterpret_cast<Stream>(stream);
}

}  // namespace cinch::allocator
