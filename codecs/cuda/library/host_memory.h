// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "codecs/cuda/library/library.h"
#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/succeeds.h"

/// The functions of a Library that need only the CUDA runtime, no kernels. Shared by the library of
/// the kernels and by the one for the fake runtime (tests/fakecuda).
namespace cinch::codecs::cuda {

/// Sets this thread's capture mode to relaxed for its scope. In the other modes, calls such as
/// cudaHostAlloc end graph captures of this thread, and in global mode those of other threads.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept
      : entered_(succeeds([this] { return cudaThreadExchangeStreamCaptureMode(&mode_); })) {}
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (entered_) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  /// False when the runtime refused to change the mode.
  explicit operator bool() const noexcept { return entered_; }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // once entered: the old mode
  bool entered_;
};

/// Library::make_stream.
inline Stream make_stream() noexcept {
  const RelaxedCapture relaxed;
  Stream stream = nullptr;
  int least = 0;
  const bool made =
      relaxed && succeeds([&] { return cudaDeviceGetStreamPriorityRange(&least, nullptr); }) &&
      succeeds([&] { return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least); });
  if (!made) return nullptr;
  int device = 0;
  int processors = 0;
  if (succeeds([&] { return cudaGetDevice(&device); }) && succeeds([&] {
        return cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      })) {
    OwnStreams::add(stream, static_cast<unsigned>(processors));
  }
  return stream;
}

/// Library::allocate_pinned.
inline void* allocate_pinned(std::size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const bool found =
      relaxed && succeeds([&] {
        return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
      });
  return found ? memory : nullptr;
}

/// Library::copy.
inline bool copy(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  return succeeds([&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream); });
}

/// Library::progress.
inline Progress progress(void* event) noexcept {
  const RelaxedCapture relaxed;
  cudaError_t found = cudaErrorUnknown;
  const bool done =
      relaxed && succeeds([&] { return found = cudaEventQuery(static_cast<cudaEvent_t>(event)); });
  if (done) return Progress::done;
  return found == cudaErrorNotReady ? Progress::pending : Progress::failed;
}

/// Library::synchronize.
inline void synchronize(void* event) noexcept {
  const RelaxedCapture relaxed;
  if (relaxed) succeeds([&] { return cudaEventSynchronize(static_cast<cudaEvent_t>(event)); });
}

}  // namespace cinch::codecs::cuda
