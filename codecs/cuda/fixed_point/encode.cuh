// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/header.cuh"
#include "codecs/cuda/elements/stretch_draws.cuh"
#include "codecs/cuda/fixed_point/job.cuh"

namespace cinch::codecs::cuda {

static __global__ void fixed_point_begin(std::int64_t channels, ChannelState* states) {
  take_items(channels, [&](std::int64_t c) {
    states[c].min = 0xFFFFFFFFU;
    states[c].max = 0;
    states[c].bad = 0;
  });
}

/// Widens the bounds of a chunk's channel, and counts the chunk's non-zero elements.
template <ElementType type>
__device__ __forceinline__ void survey_chunk(const FixedPointJob& job, const ChunkPlace& place,
                                             const void* source, ChannelState* states,
                                             ChunkState* chunks) {
  const int count = place.count(job);
  typename Element<type>::Bits bits[kStretch];
  load_chunk<type>(job, place, source, count, bits);
  float min = 0x1p127F;
  float max = -0x1p127F;
  bool bad = false;
  int nonzero = 0;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j >= count) continue;
    const float x = value_of<type>(bits[j]);
    bad |= !(fabsf(x) <= kAffineMaxMagnitude);
    min = x < min ? x : min;
    max = x > max ? x : max;
    nonzero += x != 0.0F;
  }
  join_bounds(min, max);
  bad = __any_sync(kAllLanes, bad) != 0;
  ChannelState& state = states[place.channel];
  if (threadIdx.x % kWarp == 0 && min <= max) {
    atomicMin(&state.min, ordered(min));
    atomicMax(&state.max, ordered(max));
  }
  if (threadIdx.x % kWarp == 0 && bad) atomicOr(&state.bad, 1U);
  int total = 0;
  BlockScan<kChunkThreads>::exclusive(nonzero, total);
  if (threadIdx.x == 0) chunks[place.channel * job.chunks + place.chunk].nonzero = total;
}

/// Computes the bounds of each channel, and counts the non-zero elements of each chunk.
template <ElementType type>
__global__ void __launch_bounds__(kChunkThreads)
    fixed_point_survey(const FixedPointJob job, const void* source, ChannelState* states,
                       ChunkState* chunks) {
  take_pieces(job.channels * job.chunks, [&](unsigned piece) {
    survey_chunk<type>(job, ChunkPlace(job, piece), source, states, chunks);
  });
}

/// Chooses the format of a channel, and places its chunks. All threads of the block must call it.
__device__ __forceinline__ void fit_to_data(const FixedPointJob& job, std::int64_t c,
                                            bool zero_value, float bound, const float* bounds,
                                            ChannelState* states, ChunkState* chunks) {
  __shared__ ChannelFormat shared;
  ChannelState& state = states[c];
  if (threadIdx.x == 0) {
    const bool empty = job.channel_size == 0;
    shared = fit_channel(empty ? 0.0F : of_ordered(state.min), empty ? 0.0F : of_ordered(state.max),
                         state.bad == 0, bounds != nullptr ? bounds[c] : bound, job.type);
  }
  __syncthreads();
  const ChannelFormat format = shared;
  const std::int64_t sparse = place_chunks(job, chunks + c * job.chunks, format.bits);
  if (threadIdx.x != 0) return;
  const std::int64_t raw =
      job.channel_size * (job.type == ElementType::float32 ? std::int64_t{4} : std::int64_t{2});
  const std::int64_t codes = codes_bytes(job.channel_size, format.bits);
  state.form = choose_form(format.bits, raw, codes, zero_value ? sparse + 2 * job.chunks : -1);
  const bool is_raw = state.form == ChannelForm::raw;
  state.range = is_raw ? AffineRange{} : format.range;
  state.bits = is_raw ? 0 : format.bits;
  state.bytes = is_raw ? raw : state.form == ChannelForm::codes ? codes : sparse;
}

/// Does so for all channels.
static __global__ void __launch_bounds__(kChunkThreads)
    fixed_point_fit(const FixedPointJob job, bool zero_value, float bound, const float* bounds,
                    ChannelState* states, ChunkState* chunks) {
  take_pieces(job.channels, [&](std::int64_t c) {
    fit_to_data(job, c, zero_value, bound, bounds, states, chunks);
  });
}

/// Places the channels, and writes header and table. Runs as one block.
static __global__ void __launch_bounds__(kChunkThreads)
    fixed_point_table(const FixedPointJob job, ChannelState* states, std::byte* out,
                      Result* result) {
  const std::int64_t size = place_channels(job, states);
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < job.channels; c += kChunkThreads) {
    const ChannelState& state = states[c];
    const unsigned flag = state.form == ChannelForm::zero_value ? kFixedPointZeroValueFlag : 0U;
    store_bytes(out + kFixedPointHeaderBytes + c * kFixedPointEntryBytes,
                state.range.lo | std::uint64_t{state.range.step} << 16 |
                    std::uint64_t{static_cast<unsigned>(state.bits) | flag} << 32,
                kFixedPointEntryBytes);
  }
  if (threadIdx.x != 0) return;
  store_header(fixed_point_header(job.type, job.channels, job.channel_size, size), out, result);
}

/// Computes the codes of the calling thread's elements.
template <ElementType type>
__device__ __forceinline__ void quantize_chunk(const FixedPointJob& job, const ChunkPlace& place,
                                               const ChannelState& state, int count,
                                               const typename Element<type>::Bits (&x)[kStretch],
                                               std::uint32_t (&codes)[kStretch]) {
  const std::uint32_t i = threadIdx.x * kStretch;
  const float lo = float_of_bf16(state.range.lo);
  const float step = float_of_bf16(state.range.step);
  const float scale = affine_scale(state.range);
  const int bits = state.bits;
  std::int64_t k = 0;
  place.offset(job, i, k);
  std::uint32_t draws[kStretch];
  // If planes hold whole stretches, the eight logical indices follow each other.
  const bool together = job.by_size.divisor() % kStretch == 0;
  if (together) draw_stretch(job.key, static_cast<std::uint64_t>(k), draws);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    codes[j] = 0;
    if (j >= count) continue;
    if (!together) {
      place.offset(job, i + j, k);
      std::uint32_t some[kStretch];
      draw_stretch(job.key, static_cast<std::uint64_t>(k), some);
      draws[j] = some[0];
    }
    const float value = value_of<type>(x[j]);
    codes[j] = bits <= 8 ? affine_code(value, lo, scale, bits, draws[j])
                         : affine_code_wide(value, lo, step, bits, draws[j]);
  }
}

/// Writes a chunk in the zero_value form, where a thread's codes may begin at any bit. All threads
/// of the block must call it. @param joined zeroed here, for the chunk's codes
template <ElementType type>
__device__ __forceinline__ void store_nonzeros(const typename Element<type>::Bits (&x)[kStretch],
                                               const std::uint32_t (&codes)[kStretch], int count,
                                               int bits, std::int64_t elements,
                                               const ChunkState& chunk, std::uint32_t* joined,
                                               std::byte* at) {
  unsigned mask = 0;
  int nonzero = 0;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const bool present = j < count && value_of<type>(x[j]) != 0.0F;
    mask |= static_cast<unsigned>(present) << j;
    nonzero += present;
  }
  const std::int64_t bytes = codes_bytes(chunk.nonzero, bits);
  for (std::int64_t w = threadIdx.x; w <= bytes / 4; w += kChunkThreads) joined[w] = 0;
  int total = 0;
  int position = BlockScan<kChunkThreads>::exclusive(nonzero, total);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if ((mask >> j & 1U) != 0) or_code(joined, position++ * bits, codes[j]);
  }
  __syncthreads();
  if (count > 0) at[threadIdx.x] = static_cast<std::byte>(mask);
  std::byte* const codes_at = at + (elements + 7) / 8;
  for (std::int64_t b = threadIdx.x; b < bytes; b += kChunkThreads) {
    codes_at[b] = static_cast<std::byte>(joined[b / 4] >> (b % 4 * 8));
  }
}

/// Writes a chunk's part of its channel's stream. All threads of the block must call it.
template <ElementType type>
__device__ __forceinline__ void encode_chunk(const FixedPointJob& job, const ChunkPlace& place,
                                             const void* source, const ChannelState* states,
                                             const ChunkState* chunks, std::byte* out) {
  using Bits = typename Element<type>::Bits;
  __shared__ std::uint32_t joined[kFixedPointChunk * kFixedPointMaxBits / 32 + 1];
  const ChannelState& state = states[place.channel];
  const int count = place.count(job);
  const int bits = state.bits;
  Bits x[kStretch];
  load_chunk<type>(job, place, source, count, x);
  std::byte* const stream = out + state.stream_at;
  const std::int64_t begin = place.chunk * kFixedPointChunk + std::int64_t{threadIdx.x} * kStretch;
  if (state.form == ChannelForm::raw) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j < count) {
        store_bytes(stream + (begin + j) * std::int64_t{sizeof(Bits)}, x[j], sizeof(Bits));
      }
    }
    return;
  }

  std::uint32_t codes[kStretch];
  quantize_chunk<type>(job, place, state, count, x, codes);
  if (state.form == ChannelForm::codes) {
    store_wide_stretch(stream + begin / kStretch * bits, codes, bits, count);
    return;
  }

  const ChunkState& chunk = chunks[place.channel * job.chunks + place.chunk];
  store_nonzeros<type>(x, codes, count, bits, chunk_elements(job.channel_size, place.chunk), chunk,
                       joined, stream + chunk.at);
  if (threadIdx.x == 0) {
    store_bytes(out + state.counts_at + 2 * place.chunk, static_cast<std::uint64_t>(chunk.nonzero),
                2);
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kChunkThreads, 5)
    fixed_point_encode(const FixedPointJob job, const void* source, const ChannelState* states,
                       const ChunkState* chunks, std::byte* out) {
  take_pieces(job.channels * job.chunks, [&](unsigned piece) {
    encode_chunk<type>(job, ChunkPlace(job, piece), source, states, chunks, out);
  });
}

}  // namespace cinch::codecs::cuda
