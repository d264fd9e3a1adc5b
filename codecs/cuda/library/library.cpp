// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library/library.h"

#include <cuda_runtime_api.h>

#include "codecs/cuda/library/host_memory.h"
#include "codecs/cuda/library/load.h"
#include "codecs/cuda/library/outcome.h"

namespace cinch::codecs::cuda {
namespace {

bool is_capturing(Stream stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return succeeds([&] { return cudaStreamIsCapturing(stream, &status); }) &&
         status != cudaStreamCaptureStatusNone;
}

std::shared_ptr<const DeviceCodec> make(const CodecSpec& spec) {
  return make_device_codec(spec);
}

bool load_beside_captures(const DeviceCodec& codec, const Description& what) noexcept {
  const RelaxedCapture relaxed;
  return relaxed && load(codec, what);
}

constexpr Library library = {library_abi,
                             make,
                             load_beside_captures,
                             is_capturing,
                             make_stream,
                             allocate_pinned,
                             copy,
                             write,
                             keep_source,
                             apply_without_bias,
                             keep_where,
                             normalize_rows,
                             normalize_channels,
                             apply_program,
                             progress,
                             synchronize};

}  // namespace
}  // namespace cinch::codecs::cuda

extern "C" __attribute__((visibility("default"))) const cinch::codecs::cuda::Library*
cinch_cuda_library() {
  return &cinch::codecs::cuda::library;
}
