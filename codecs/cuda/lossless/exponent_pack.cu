// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/lossless/exponent_pack_decode.cuh"
#include "codecs/cuda/lossless/exponent_pack_encode.cuh"
#include "codecs/formats/lossless/exponent_pack.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs::cuda {
namespace {

class ExponentPackCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           PackLayout(what.layout.elements()).count <= kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return RunningTotal::bytes(PackLayout(what.layout.elements()).count);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const PackJob job(what, source);
    if (job.elements == 0) {
      return launch(exponent_pack_empty, 1, 1, 0, stream, job, out, result);
    }
    auto* const total = static_cast<RunningTotal*>(scratch);
    return begin_total(stream, total, job.at.count) &&
           with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
             return launch(exponent_pack_encode<T>, blocks_in(stream, job.at.count, kPackThreads),
                           kPackThreads, 0, stream, job, source, total, out, result);
           });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const PackJob job(what, target);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < job.at.payload) return false;
    if (job.elements == 0) return true;
    return with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
      return launch(exponent_pack_decode<T>, blocks_in(stream, job.at.count, kPackThreads),
                    kPackThreads, 0, stream, job, in.data(), size, target);
    });
  }

 private:
  std::shared_ptr<const Codec> host_ = make_exponent_pack_reference();
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_exponent_pack_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<ExponentPackCuda>();
}

}  // namespace cinch::codecs::cuda
