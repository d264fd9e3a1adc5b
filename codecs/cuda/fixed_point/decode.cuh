// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/fixed_point/job.cuh"

/// Damaged bytes may decode to any values. Offsets from encoded bytes are checked against the size.
namespace cinch::codecs::cuda {

/// Reads the format of a channel from the table.
__device__ __forceinline__ void read_format(const FixedPointJob& job, std::int64_t c,
                                            const std::byte* in, ChannelState& state) {
  const std::uint64_t entry =
      load_bytes(in + kFixedPointHeaderBytes + c * kFixedPointEntryBytes, kFixedPointEntryBytes);
  const auto width = static_cast<unsigned>(entry >> 32);
  state.range = {static_cast<std::uint16_t>(entry), static_cast<std::uint16_t>(entry >> 16)};
  const int bits = static_cast<int>(width & 0x7FU);
  state.bits = bits > kFixedPointMaxBits ? kFixedPointMaxBits : bits;
  state.form = width == 0                                ? ChannelForm::raw
               : (width & kFixedPointZeroValueFlag) != 0 ? ChannelForm::zero_value
                                                         : ChannelForm::codes;
  const std::int64_t raw =
      job.channel_size * (job.type == ElementType::float32 ? std::int64_t{4} : std::int64_t{2});
  state.bytes = state.form == ChannelForm::raw     ? raw
                : state.form == ChannelForm::codes ? codes_bytes(job.channel_size, state.bits)
                                                   : 0;
}

/// Reads the formats of all channels.
static __global__ void fixed_point_read_table(const FixedPointJob job, const std::byte* in,
                                              ChannelState* states) {
  take_items(job.channels, [&](std::int64_t c) { read_format(job, c, in, states[c]); });
}

/// Places the channels' counts and streams. Runs as one block.
static __global__ void __launch_bounds__(kChunkThreads)
    fixed_point_place(const FixedPointJob job, ChannelState* states) {
  place_channels(job, states);
}

/// Reads the counts of a zero_value channel and places its chunks. All threads of the block must
/// call it.
__device__ __forceinline__ void read_counts(const FixedPointJob& job, std::int64_t c,
                                            const std::byte* in, std::int64_t in_size,
                                            ChannelState* states, ChunkState* chunks) {
  if (states[c].form != ChannelForm::zero_value) return;
  ChunkState* const own = chunks + c * job.chunks;
  for (std::int64_t k = threadIdx.x; k < job.chunks; k += kChunkThreads) {
    const std::int64_t at = states[c].counts_at + 2 * k;
    const auto stated = at + 2 <= in_size ? static_cast<std::int32_t>(load_bytes(in + at, 2)) : 0;
    const auto most = static_cast<std::int32_t>(chunk_elements(job.channel_size, k));
    own[k].nonzero = stated < most ? stated : most;
  }
  __syncthreads();
  const std::int64_t bytes = place_chunks(job, own, states[c].bits);
  if (threadIdx.x == 0) states[c].bytes = bytes;
}

/// Does so for all channels.
static __global__ void __launch_bounds__(kChunkThreads)
    fixed_point_read_counts(const FixedPointJob job, const std::byte* in, std::int64_t in_size,
                            ChannelState* states, ChunkState* chunks) {
  take_pieces(job.channels,
              [&](std::int64_t c) { read_counts(job, c, in, in_size, states, chunks); });
}

/// Restores the elements of a chunk. All threads of the block must call it.
template <ElementType type>
__device__ __forceinline__ void decode_chunk(const FixedPointJob& job, const ChunkPlace& place,
                                             const std::byte* in, std::int64_t in_size,
                                             const ChannelState* states, const ChunkState* chunks,
                                             void* target) {
  using Bits = typename Element<type>::Bits;
  auto* const elements = static_cast<Bits*>(target);
  const ChannelState& state = states[place.channel];
  const int count = place.count(job);
  const int bits = state.bits;
  const std::int64_t begin = place.chunk * kFixedPointChunk + std::int64_t{threadIdx.x} * kStretch;
  if (state.stream_at + state.bytes > in_size) return;  // the same in all threads of the block
  const std::byte* stream = in + state.stream_at;
  const float lo = float_of_bf16(state.range.lo);
  const float step = float_of_bf16(state.range.step);

  unsigned mask = (1U << kStretch) - 1;
  std::int64_t position = begin;
  std::int64_t positions = job.channel_size;
  if (state.form == ChannelForm::zero_value) {
    const ChunkState& chunk = chunks[place.channel * job.chunks + place.chunk];
    stream += chunk.at;
    mask = count > 0 ? static_cast<unsigned>(stream[threadIdx.x]) & ((1U << count) - 1) : 0U;
    int total = 0;
    position = BlockScan<kChunkThreads>::exclusive(__popc(mask), total);
    positions = chunk.nonzero;
    stream += (chunk_elements(job.channel_size, place.chunk) + 7) / 8;
  }
  Bits x[kStretch];
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = 0;
    if (j >= count || (mask >> j & 1U) == 0) continue;
    if (state.form == ChannelForm::raw) {
      x[j] = static_cast<Bits>(
          load_bytes(stream + (begin + j) * std::int64_t{sizeof(Bits)}, sizeof(Bits)));
    } else if (position < positions) {
      const auto code =
          static_cast<std::uint32_t>(load_codes(stream, position, bits, 1)) & ((1U << bits) - 1);
      x[j] = bits_of<type>(affine_value(lo, step, code));
      ++position;
    }
  }
  const std::uint32_t i = threadIdx.x * kStretch;
  std::int64_t logical = 0;
  if (job.vectors && count == kStretch) {
    store_stretch<type>(elements + place.offset(job, i, logical), x);
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j < count) elements[place.offset(job, i + j, logical)] = x[j];
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kChunkThreads)
    fixed_point_decode(const FixedPointJob job, const std::byte* in, std::int64_t in_size,
                       const ChannelState* states, const ChunkState* chunks, void* target) {
  take_pieces(job.channels * job.chunks, [&](unsigned piece) {
    decode_chunk<type>(job, ChunkPlace(job, piece), in, in_size, states, chunks, target);
  });
}

}  // namespace cinch::codecs::cuda
