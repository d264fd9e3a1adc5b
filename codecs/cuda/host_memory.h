// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "codecs/cuda/library.h"

/// What a Library does with the host's memory and with events, by the CUDA runtime alone: the same
/// for the kernels' library and for that of the fake runtime.
namespace cinch::codecs::cuda {

/// Library::allocate_pinned.
inline void* allocate_pinned(std::size_t bytes) noexcept {
  // In any other mode it would end a capture that is under way in another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) return nullptr;
  void* memory = nullptr;
  const cudaError_t found = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (found == cudaSuccess) return memory;
  cudaGetLastError();  // so that no later call takes it for its own
  return nullptr;
}

/// Library::copy.
inline bool copy(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  if (cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

/// Library::happened.
inline bool happened(void* event) noexcept {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // as above
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) return false;
  const cudaError_t asked = cudaEventQuery(static_cast<cudaEvent_t>(event));
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (asked == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

/// Library::synchronize.
inline void synchronize(void* event) noexcept {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // as above
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) return;
  if (cudaEventSynchronize(static_cast<cudaEvent_t>(event)) != cudaSuccess) cudaGetLastError();
  cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace cinch::codecs::cuda
