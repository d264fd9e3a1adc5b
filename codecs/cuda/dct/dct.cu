// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/dct/decode.cuh"
#include "codecs/cuda/dct/encode.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/dct.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

class DctCuda final : public DeviceCodec {
 public:
  explicit DctCuda(const DctParameters& parameters) noexcept : parameters_(parameters) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && is_valid(what.layout) &&
           DctJob(parameters_, what).chunks <= kMaxBlocks;
  }

  /// Encoding's running total. Decoding's offsets take less.
  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return RunningTotal::bytes(DctJob(parameters_, what).chunks);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const DctJob job(parameters_, what);
    if (job.chunks == 0) return launch(dct_empty, 1, 1, 0, stream, job, out, result);
    auto* const total = static_cast<RunningTotal*>(scratch);
    return begin_total(stream, total, job.chunks) && with_element(what.type, [&](auto type) {
             return launch(dct_encode<type.value>, blocks_in(stream, job.chunks, kDctThreads),
                           kDctThreads, 0, stream, job, source, total, out, result);
           });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* scratch, Stream stream) const noexcept override {
    const DctJob job(parameters_, what);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < job.payload) return false;
    if (job.chunks == 0) return true;
    auto* const offsets = static_cast<std::int64_t*>(scratch);
    return launch(dct_offsets, 1, kDctThreads, 0, stream, job, in.data(), offsets) &&
           with_element(what.type, [&](auto type) {
             return launch(dct_decode<type.value>, blocks_in(stream, job.chunks, kDctThreads),
                           kDctThreads, 0, stream, job, in.data(), size, offsets, target);
           });
  }

 private:
  DctParameters parameters_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_dct_cuda(const CodecSpec& spec) {
  return std::make_shared<DctCuda>(DctParameters{spec.error_bound, spec.zero_value});
}

}  // namespace cinch::codecs::cuda
