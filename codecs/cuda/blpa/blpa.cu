// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/blpa/kernels.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/blpa.h"

namespace cinch::codecs::cuda {
namespace {

class BlpaCuda final : public DeviceCodec {
 public:
  explicit BlpaCuda(const BlpaParameters& parameters)
      : parameters_(parameters), host_(make_blpa_reference(parameters)) {}

  bool accepts(const Description& what) const noexcept override {
    if (!host_->accepts(what) || !LogicalOrder::accepts(what.layout)) return false;
    const BlpaJob job(parameters_, what, nullptr);
    return job.elements <= kRunReach * kMaxBlocks && job.channels <= kMaxBlocks &&
           job.chunks.count <= kMaxBlocks / (job.channels == 0 ? 1 : job.channels);
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    const BlpaJob job(parameters_, what, nullptr);
    return sizeof(BlpaState) + static_cast<std::size_t>(job.channels) *
                                   (sizeof(BlpaSums) * static_cast<std::size_t>(job.chunks.count) +
                                    sizeof(std::uint32_t));
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const BlpaJob job(parameters_, what, source);
    if (job.channels == 0) return true;
    auto* const state = static_cast<BlpaState*>(scratch);
    auto* const sums = reinterpret_cast<BlpaSums*>(state + 1);
    auto* const bad = reinterpret_cast<std::uint32_t*>(sums + job.channels * job.chunks.count);
    const bool given = what.channel_center != nullptr && what.channel_scale != nullptr;
    const unsigned surveyed = blocks_in(stream, job.channels * job.chunks.count, kSumThreads);
    // At least one block, because it writes the encoded size.
    const unsigned blocks = job.elements == 0 ? 1 : run_blocks(stream, job.elements);
    return with_element(what.type, [&](auto type) {
      return launch(blpa_begin, by_thread(job, stream), kRunThreads, 0, stream, job.channels, state,
                    bad) &&
             (surveyed == 0 || launch(blpa_survey<type.value>, surveyed, kSumThreads, 0, stream,
                                      job, !given, source, sums, bad, result)) &&
             launch(blpa_grids, blocks_in(stream, job.channels, kSumThreads), kSumThreads, 0,
                    stream, job, what.channel_center, what.channel_scale, sums, bad, state, out,
                    result) &&
             launch(blpa_encode<type.value>, blocks, kRunThreads, 0, stream, job, source, state,
                    out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    const BlpaJob job(parameters_, what, target);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < job.end[0]) return false;
    if (job.elements == 0) return true;
    auto* const state = static_cast<BlpaState*>(scratch);
    return with_element(what.type, [&](auto type) {
      return launch(blpa_clear, 1, 1, 0, stream, state) &&
             launch(blpa_find_signs, by_thread(job, stream), kRunThreads, 0, stream, job, in.data(),
                    state) &&
             launch(blpa_decode<type.value>, run_blocks(stream, job.elements), kRunThreads, 0,
                    stream, job, in.data(), size, reads, state, target);
    });
  }

 private:
  /// Blocks for a kernel whose threads take channels.
  static unsigned by_thread(const BlpaJob& job, Stream stream) noexcept {
    return blocks_in(stream, blocks_for(job.channels, kRunThreads), kRunThreads);
  }

  BlpaParameters parameters_;
  std::shared_ptr<const Codec> host_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_blpa_cuda(const CodecSpec& spec) {
  return std::make_shared<BlpaCuda>(BlpaParameters{spec.bits, spec.with_sign});
}

}  // namespace cinch::codecs::cuda
