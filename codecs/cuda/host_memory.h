// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "codecs/cuda/library.h"

/// What a Library does with the host's memory and with events, by the CUDA runtime alone: the same
/// for the kernels' library and for that of the fake runtime.
namespace cinch::codecs::cuda {

/// For its scope this thread's calls leave graph captures alone that they would end in any other
/// mode: those of other threads, and its own.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept
      : entered_(cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess) {}
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (entered_) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  /// False where the runtime would not have it.
  explicit operator bool() const noexcept { return entered_; }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the one before
  bool entered_;
};

/// Whether a call succeeded. A failure is cleared, so that no later call takes it for its own.
inline bool succeeded(cudaError_t found) noexcept {
  if (found != cudaSuccess) cudaGetLastError();
  return found == cudaSuccess;
}

/// Library::allocate_pinned.
inline void* allocate_pinned(std::size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const bool found = relaxed && succeeded(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
  return found ? memory : nullptr;
}

/// Library::copy.
inline bool copy(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  return succeeded(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

/// Library::happened.
inline bool happened(void* event) noexcept {
  const RelaxedCapture relaxed;
  return relaxed && succeeded(cudaEventQuery(static_cast<cudaEvent_t>(event)));
}

/// Library::synchronize.
inline void synchronize(void* event) noexcept {
  const RelaxedCapture relaxed;
  if (relaxed) succeeded(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
}

}  // namespace cinch::codecs::cuda
