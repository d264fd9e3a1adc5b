// SPDX-License-Identifier: Apache-2.0
// Memory shared with other processes.
#include "allocator/torch/cuda/cuda_allocator.h"

namespace cinch::allocator {

c10::cuda::CUDACachingAllocator::ShareableHandle CudaAllocator::shareIpcHandle(void* pointer) {
  TORCH_CHECK(owner_of(pointer) == nullptr,
              "a CUDA tensor in memory of Cinch's allocator can't be shared with another process; "
              "set \"allocator\": {\"cuda\": false} in the policy to share CUDA tensors");
  return native_.shareIpcHandle(pointer);
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) {
  return native_.getIpcDevPtr(std::move(handle));
}

}  // namespace cinch::allocator
