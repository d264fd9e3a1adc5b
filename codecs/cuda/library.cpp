// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library.h"

#include <cuda_runtime_api.h>

namespace cinch::codecs::cuda {
namespace {

bool is_capturing(Stream stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

std::shared_ptr<const DeviceCodec> make(const CodecSpec& spec) {
  return make_device_codec(spec);
}

void* allocate_pinned(std::size_t bytes) noexcept {
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

bool copy(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  if (cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

constexpr Library library = {library_abi, make, is_capturing, allocate_pinned, copy};

}  // namespace
}  // namespace cinch::codecs::cuda

extern "C" __attribute__((visibility("default"))) const cinch::codecs::cuda::Library*
cinch_cuda_library() {
  return &cinch::codecs::cuda::library;
}
