// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/device.h"
#include "codecs/cuda/launch_shape.h"

namespace cinch::codecs::cuda {

bool load_kernel(const void* kernel, std::size_t shared_bytes) noexcept {
  cudaFuncAttributes has = {};
  if (!succeeds([&] { return cudaFuncGetAttributes(&has, kernel); })) return false;
  if (shared_bytes <= static_cast<std::size_t>(has.maxDynamicSharedSizeBytes)) return true;
  const std::size_t most = device_limits().shared_bytes;
  if (has.sharedSizeBytes > most || shared_bytes > most - has.sharedSizeBytes) return false;
  // To the largest at once: which shapes come later is not known.
  return succeeds([&] {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(most - has.sharedSizeBytes));
  });
}

}  // namespace cinch::codecs::cuda
