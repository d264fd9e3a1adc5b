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

constexpr Library library = {library_abi, make_device_codec, device_state_bytes, is_capturing};

}  // namespace
}  // namespace cinch::codecs::cuda

extern "C" __attribute__((visibility("default"))) const cinch::codecs::cuda::Library*
cinch_cuda_library() {
  return &cinch::codecs::cuda::library;
}
