// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/error_bounded_kernels.cuh"
#include "codecs/cuda/families.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/error_bounded.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

class ErrorBoundedCuda final : public DeviceCodec {
 public:
  explicit ErrorBoundedCuda(float bound) noexcept : bound_(bound) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && is_valid(what.layout) &&
           LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kSuperblockElements * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return RunningTotal::bytes(BoundJob(what, bound_).at.superblocks);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const BoundJob job(what, bound_);
    if (job.elements == 0) {
      return launch(error_bounded_empty, 1, 1, 0, stream, job, out, result);
    }
    auto* const total = static_cast<RunningTotal*>(scratch);
    const auto superblocks = static_cast<unsigned>(job.at.superblocks);
    return launch(running_total_begin, blocks_for(superblocks, kTotalThreads), kTotalThreads, 0,
                  stream, total, job.at.superblocks) &&
           with_element(what.type, [&](auto type) {
             return launch(error_bounded_encode<type.value>, superblocks, kBoundThreads, 0, stream,
                           job, source, total, out, result);
           });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* /*scratch*/, Stream stream) const noexcept override {
    const BoundJob job(what, bound_);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < job.at.payload) return false;
    if (job.elements == 0) return true;
    return with_element(what.type, [&](auto type) {
      return launch(error_bounded_decode<type.value>, static_cast<unsigned>(job.at.superblocks),
                    kBoundThreads, 0, stream, job, in.data(), size, reads, target);
    });
  }

 private:
  float bound_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_error_bounded_cuda(const CodecSpec& spec) {
  return std::make_shared<ErrorBoundedCuda>(spec.error_bound);
}

}  // namespace cinch::codecs::cuda
