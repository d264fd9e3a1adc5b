// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/blocks/ordered.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/elements/fast_divide.h"
#include "codecs/formats/fixed_point.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {

/// A block of threads takes chunks of channels, eight elements a thread.
inline constexpr unsigned kChunkThreads = 256;
static_assert(kChunkThreads * kStretch == kFixedPointChunk);

/// State of a channel, in scratch memory.
struct ChannelState {
  std::uint32_t min, max;  ///< integers made by `ordered`
  std::uint32_t bad;
  AffineRange range;
  int bits;
  ChannelForm form;
  std::int64_t bytes;      ///< size of its stream
  std::int64_t stream_at;  ///< offset in the encoded data
  std::int64_t counts_at;  ///< offset in the encoded data; zero_value only
};

/// State of a chunk of a channel, in scratch memory.
struct ChunkState {
  std::int64_t at;  ///< offset in the channel's stream; zero_value only
  std::int32_t nonzero;
};

/// Arguments of the fixed_point kernels.
struct FixedPointJob {
  PlaneLayout layout;
  std::int64_t channels;
  std::int64_t channel_size;  ///< M
  std::int64_t chunks;        ///< chunks of a channel
  FastDivide by_size, by_height, by_width;
  bool vectors;      ///< stretches lie within planes and allow 16-byte accesses
  bool interleaved;  ///< neighbouring channels lie side by side
  ElementType type;
  RandomKey key;

  FixedPointJob(const Description& what, const void* memory, RandomKey random_key) noexcept
      : layout(what.layout),
        channels(what.layout.channels()),
        channel_size(what.layout.outer * what.layout.plane_size()),
        chunks(channel_chunks(channel_size)),
        by_size(what.layout.plane_size()),
        by_height(what.layout.extent[1]),
        by_width(what.layout.extent[2]),
        vectors(has_dense_planes(what.layout) && is_vector_aligned(memory) &&
                (what.layout.plane_size() | what.layout.inner_stride | what.layout.outer_stride) %
                        kStretch ==
                    0),
        interleaved(what.layout.inner_stride < what.layout.stride[2] ||
                    what.layout.inner_stride < what.layout.plane_size()),
        type(what.type),
        key(random_key) {}
};

/// A chunk, by the number of the piece of work. Neighbouring pieces are near in memory.
struct ChunkPlace {
  std::int64_t channel, chunk;
  std::int64_t outer;    ///< outer index of the chunk's first element
  std::uint32_t within;  ///< place of that element in its plane

  __device__ __forceinline__ ChunkPlace(const FixedPointJob& job, unsigned piece) {
    const auto channels = static_cast<unsigned>(job.channels);
    const auto chunks = static_cast<unsigned>(job.chunks);
    channel = job.interleaved ? piece % channels : piece / chunks;
    chunk = job.interleaved ? piece / channels : piece % chunks;
    const std::int64_t first = chunk * kFixedPointChunk;
    outer = first / job.by_size.divisor();
    within = static_cast<std::uint32_t>(first % job.by_size.divisor());
  }

  /// Memory offset of the chunk's element `i`. @param logical set to its logical index
  __device__ __forceinline__ std::int64_t offset(const FixedPointJob& job, std::uint32_t i,
                                                 std::int64_t& logical) const {
    std::uint32_t w = within + i;
    const std::int64_t o = outer + job.by_size.split(w);
    logical = (o * job.channels + channel) * job.by_size.divisor() + w;
    std::uint32_t h = job.by_width.split(w);
    const std::uint32_t d = job.by_height.split(h);
    const PlaneLayout& l = job.layout;
    return o * l.outer_stride + channel * l.inner_stride + d * l.stride[0] + h * l.stride[1] +
           w * l.stride[2];
  }

  /// How many elements the calling thread takes: 0 to 8, from the chunk's 8 * threadIdx.x on.
  __device__ __forceinline__ int count(const FixedPointJob& job) const {
    const std::int64_t left =
        chunk_elements(job.channel_size, chunk) - std::int64_t{threadIdx.x} * kStretch;
    return left < 0 ? 0 : left < kStretch ? static_cast<int>(left) : kStretch;
  }
};

/// Loads the calling thread's elements as bit patterns.
template <ElementType type>
__device__ __forceinline__ void load_chunk(const FixedPointJob& job, const ChunkPlace& place,
                                           const void* source, int count,
                                           typename Element<type>::Bits (&x)[kStretch]) {
  const auto* const elements = static_cast<const typename Element<type>::Bits*>(source);
  const std::uint32_t i = threadIdx.x * kStretch;
  std::int64_t logical = 0;
  if (job.vectors && count == kStretch) {
    const auto* const from = elements + place.offset(job, i, logical);
    constexpr int kPer = Element<type>::kPerVector;
#pragma unroll
    for (int v = 0; v < kStretch / kPer; ++v) {
      Vector<type> vector;
      vector.load(from + v * kPer);
      for (int j = 0; j < kPer; ++j) x[v * kPer + j] = vector.bits[j];
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = j < count ? elements[place.offset(job, i + j, logical)] : 0;
  }
}

/// Places a channel's chunks in the zero_value form. @return their bytes' sum, in all threads
__device__ __forceinline__ std::int64_t place_chunks(const FixedPointJob& job, ChunkState* chunks,
                                                     int bits) {
  const std::int64_t each = (job.chunks + kChunkThreads - 1) / kChunkThreads;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < job.chunks ? begin + each : job.chunks;
  const auto bytes = [&](std::int64_t k) {
    return zero_value_bytes(chunk_elements(job.channel_size, k), chunks[k].nonzero, bits);
  };
  std::int64_t sum = 0;
  for (std::int64_t k = begin; k < end; ++k) sum += bytes(k);
  std::int64_t total = 0;
  std::int64_t at = BlockScan<kChunkThreads>::exclusive(sum, total);
  for (std::int64_t k = begin; k < end; ++k) {
    chunks[k].at = at;
    at += bytes(k);
  }
  return total;
}

/// Places the streams of all channels one after another. By one block of threads.
/// @return the encoded size, in all threads
__device__ __forceinline__ std::int64_t place_channels(const FixedPointJob& job,
                                                       ChannelState* states) {
  const std::int64_t each = (job.channels + kChunkThreads - 1) / kChunkThreads;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < job.channels ? begin + each : job.channels;
  std::int64_t bytes = 0;
  std::int64_t counts = 0;
  for (std::int64_t c = begin; c < end; ++c) {
    bytes += states[c].bytes;
    if (states[c].form == ChannelForm::zero_value) counts += 2 * job.chunks;
  }
  std::int64_t all_bytes = 0;
  std::int64_t all_counts = 0;
  std::int64_t counts_at = kFixedPointHeaderBytes + job.channels * kFixedPointEntryBytes;
  const std::int64_t counts_begin = counts_at;
  counts_at += BlockScan<kChunkThreads>::exclusive(counts, all_counts);
  std::int64_t at =
      counts_begin + all_counts + BlockScan<kChunkThreads>::exclusive(bytes, all_bytes);
  for (std::int64_t c = begin; c < end; ++c) {
    states[c].stream_at = at;
    states[c].counts_at = counts_at;
    at += states[c].bytes;
    if (states[c].form == ChannelForm::zero_value) counts_at += 2 * job.chunks;
  }
  return counts_begin + all_counts + all_bytes;
}

}  // namespace cinch::codecs::cuda
