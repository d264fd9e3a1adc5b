// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/fixed_point/decode.cuh"
#include "codecs/cuda/fixed_point/encode.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/fixed_point.h"

namespace cinch::codecs::cuda {
namespace {

class FixedPointCuda final : public DeviceCodec {
 public:
  explicit FixedPointCuda(const FixedPointParameters& parameters) : parameters_(parameters) {}

  bool accepts(const Description& what) const noexcept override {
    if (!is_quantizable(what.type) || !is_valid(what.layout)) return false;
    const FixedPointJob job(what, nullptr, {});
    return what.layout.plane_size() <= (std::int64_t{1} << 30) && job.channels <= kMaxBlocks &&
           job.chunks <= kMaxBlocks / (job.channels == 0 ? 1 : job.channels);
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    const FixedPointJob job(what, nullptr, {});
    return static_cast<std::size_t>(job.channels) *
           (sizeof(ChannelState) + static_cast<std::size_t>(job.chunks) * sizeof(ChunkState));
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const FixedPointJob job(what, source, key);
    auto* const states = static_cast<ChannelState*>(scratch);
    auto* const chunks = reinterpret_cast<ChunkState*>(states + job.channels);
    const unsigned by_thread =
        blocks_in(stream, blocks_for(job.channels, kChunkThreads), kChunkThreads);
    const unsigned channels = blocks_in(stream, job.channels, kChunkThreads);
    const unsigned all = blocks_in(stream, job.channels * job.chunks, kChunkThreads);
    return with_element(what.type, [&](auto type) {
      return (channels == 0 || launch(fixed_point_begin, by_thread, kChunkThreads, 0, stream,
                                      job.channels, states)) &&
             (all == 0 || launch(fixed_point_survey<type.value>, all, kChunkThreads, 0, stream, job,
                                 source, states, chunks)) &&
             (channels == 0 || launch(fixed_point_fit, channels, kChunkThreads, 0, stream, job,
                                      parameters_.zero_value, parameters_.error_bound,
                                      what.channel_bound, states, chunks)) &&
             launch(fixed_point_table, 1, kChunkThreads, 0, stream, job, states, out, result) &&
             (all == 0 || launch(fixed_point_encode<type.value>, all, kChunkThreads, 0, stream, job,
                                 source, states, chunks, out));
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* scratch, Stream stream) const noexcept override {
    const FixedPointJob job(what, target, {});
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < kFixedPointHeaderBytes + job.channels * kFixedPointEntryBytes) return false;
    auto* const states = static_cast<ChannelState*>(scratch);
    auto* const chunks = reinterpret_cast<ChunkState*>(states + job.channels);
    const unsigned by_thread =
        blocks_in(stream, blocks_for(job.channels, kChunkThreads), kChunkThreads);
    const unsigned channels = blocks_in(stream, job.channels, kChunkThreads);
    const unsigned all = blocks_in(stream, job.channels * job.chunks, kChunkThreads);
    if (all == 0) return true;
    return with_element(what.type, [&](auto type) {
      return launch(fixed_point_read_table, by_thread, kChunkThreads, 0, stream, job, in.data(),
                    states) &&
             launch(fixed_point_place, 1, kChunkThreads, 0, stream, job, states) &&
             launch(fixed_point_read_counts, channels, kChunkThreads, 0, stream, job, in.data(),
                    size, states, chunks) &&
             // Again, because only now are the sizes of the zero_value streams known.
             launch(fixed_point_place, 1, kChunkThreads, 0, stream, job, states) &&
             launch(fixed_point_decode<type.value>, all, kChunkThreads, 0, stream, job, in.data(),
                    size, states, chunks, target);
    });
  }

 private:
  FixedPointParameters parameters_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_fixed_point_cuda(const CodecSpec& spec) {
  return std::make_shared<FixedPointCuda>(FixedPointParameters{spec.error_bound, spec.zero_value});
}

}  // namespace cinch::codecs::cuda
