// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/error_bounded/ratio_decode.cuh"
#include "codecs/cuda/error_bounded/ratio_encode.cuh"
#include "codecs/cuda/error_bounded/ratio_plan.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

/// The encoded bytes of an empty tensor: everything before the payload, which is empty.
struct EmptyRatio {
  std::byte bytes[RatioHeader::kBooks + RatioHeader::kMaxBookBytes];
  unsigned size;
};

__global__ void ratio_empty(const EmptyRatio empty, std::byte* out, Result* result) {
  for (unsigned i = threadIdx.x; i < empty.size; i += kWarp) out[i] = empty.bytes[i];
  if (threadIdx.x == 0) publish(empty.size, result);
}

class ErrorBoundedRatioCuda final : public DeviceCodec {
 public:
  explicit ErrorBoundedRatioCuda(float bound) noexcept : bound_(bound) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && is_valid(what.layout) &&
           LogicalOrder::accepts(what.layout) && RatioChunks(what.layout).count() <= kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    const std::int64_t turns = RatioChunks(what.layout).count() + kScratchTurns;
    return std::max(RunningTotal::bytes(turns), sizeof(RatioTables));
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const RatioJob job(what, bound_);
    if (job.elements == 0) return encode_empty(what, out, result, stream);
    auto* const total = static_cast<RunningTotal*>(scratch);
    auto* const own = reinterpret_cast<RatioScratch*>(total->turns() + job.count);
    return begin_total(stream, total, job.count + kScratchTurns) &&
           with_element(what.type, [&](auto type) {
             return in_waves(stream, static_cast<unsigned>(job.sampled()), kRatioThreads,
                             [&](unsigned first, unsigned blocks) {
                               return launch(ratio_survey<type.value>, blocks, kRatioThreads,
                                             kRatioShared, stream, job, first, source,
                                             &own->survey);
                             }) &&
                    launch(ratio_plan, 1, kPlanThreads, 0, stream, job, &own->survey, &own->plan,
                           out) &&
                    launch(ratio_encode<type.value>, blocks_in(stream, job.count, kRatioThreads),
                           kRatioThreads, kRatioShared, stream, job, source, total, &own->plan, out,
                           result);
           });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    const RatioJob job(what, bound_);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < RatioHeader::kBooks + 8 * job.count) return false;
    if (job.elements == 0) return true;
    auto* const tables = static_cast<RatioTables*>(scratch);
    return launch(ratio_prepare, 1, kPrepareThreads, 0, stream, job, in.data(), size, tables) &&
           with_element(what.type, [&](auto type) {
             return launch(ratio_decode<type.value>, blocks_in(stream, job.count, kReadThreads),
                           kReadThreads, 0, stream, job, in.data(), size, reads, tables, target);
           });
  }

 private:
  bool encode_empty(const Description& what, std::byte* out, Result* result,
                    Stream stream) const noexcept {
    EmptyRatio empty;
    RatioHeader header = {what.type, RatioPlan::make({}, {}), bound_, 0, 0, 0};
    header.write(empty.bytes);
    header.write_size(empty.bytes, header.index);
    empty.size = static_cast<unsigned>(header.index);
    return launch(ratio_empty, 1, kWarp, 0, stream, empty, out, result);
  }

  float bound_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_error_bounded_ratio_cuda(const CodecSpec& spec) {
  return std::make_shared<ErrorBoundedRatioCuda>(spec.error_bound);
}

}  // namespace cinch::codecs::cuda
