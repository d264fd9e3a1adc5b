// SPDX-License-Identifier: Apache-2.0
// Memory shared with other processes.
#include <c10/cuda/CUDAFunctions.h>

#include "allocator/torch/cuda/cuda_allocator.h"
#include "allocator/torch/cuda/sharing/descriptors.h"

namespace cinch::allocator {

c10::cuda::CUDACachingAllocator::ShareableHandle CudaAllocator::shareIpcHandle(void* pointer) {
  Device* owner = owner_of(pointer);
  if (owner == nullptr) return native_.shareIpcHandle(pointer);
  std::size_t offset = 0;
  const SharedHandles shared = owner->exports().share(reinterpret_cast<Address>(pointer), offset);
  // A failure is ignored: only receivers that need the socket notice it, and they report it.
  serve_descriptors(is_shared);
  return {static_cast<std::ptrdiff_t>(offset), shared.text()};
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) {
  const auto shared = SharedHandles::parse(handle);
  if (!shared) return native_.getIpcDevPtr(std::move(handle));
  c10::DeviceIndex index = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
  Device& receiver = device(index);
  if (receiver.usable()) return imports_.open(handle, *shared, index, receiver.runtime());
  TORCH_CHECK(!SharedHandles::is_ours(handle),
              "memory of Cinch's allocator in another process can't be mapped on device ",
              static_cast<int>(index), ": ", receiver.fault());
  return native_.getIpcDevPtr(std::move(handle));
}

}  // namespace cinch::allocator
