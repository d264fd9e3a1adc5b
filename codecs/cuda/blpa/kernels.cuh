// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/blpa.h"

/// BLPA reads the elements twice: it must know whether a channel is representable before it writes
/// the channel's first code.
namespace cinch::codecs::cuda {

/// One thread for each of BlpaChunks' sums.
inline constexpr unsigned kSumThreads = BlpaChunks::kLanes;

struct BlpaSums {
  double sum, squares;
};

/// The beginning of scratch memory.
struct BlpaState {
  std::uint32_t has_signs;
  std::uint32_t reserved[3];
};

struct BlpaJob {
  LogicalOrder order;
  BlpaChunks chunks;
  std::int64_t elements;
  std::int64_t channels;
  int bits;
  bool with_sign;
  bool vectors;
  std::int64_t signs_at;
  std::int64_t codes_at[2];  ///< without and with sign bits
  std::int64_t end[2];

  BlpaJob(const BlpaParameters& parameters, const Description& what, const void* memory) noexcept
      : order(what.layout),
        chunks(what.layout),
        elements(what.layout.elements()),
        channels(what.layout.channels()),
        bits(parameters.bits),
        with_sign(parameters.with_sign),
        vectors(order.contiguous && is_vector_aligned(memory)) {
    for (const bool has_signs : {false, true}) {
      const BlpaSections sections(parameters, what.layout, has_signs);
      signs_at = sections.signs;
      codes_at[has_signs] = sections.codes;
      end[has_signs] = sections.end;
    }
  }
};

/// Sums over the block's threads, in halves (see BlpaChunks). Only thread 0 gets the sum.
__device__ __forceinline__ double sum_in_halves(double value) {
  __shared__ double upper[kSumThreads / 2];
  static_assert(kSumThreads == 2 * kWarp);
  __syncthreads();
  if (threadIdx.x >= kWarp) upper[threadIdx.x - kWarp] = value;
  __syncthreads();
  if (threadIdx.x < kWarp) value += upper[threadIdx.x];
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    value += __shfl_down_sync(kAllLanes, value, half);
  }
  return value;
}

static __global__ void blpa_begin(std::int64_t channels, BlpaState* state, std::uint32_t* bad) {
  if (blockIdx.x == 0 && threadIdx.x == 0) state->has_signs = 0;
  take_items(channels, [&](std::int64_t c) { bad[c] = 0; });
}

/// Sums a chunk of a channel, and marks the channel in `bad` if it is not representable. All
/// threads of the block must call it.
template <ElementType type>
__device__ __forceinline__ void survey_chunk(const BlpaJob& job, unsigned channel, unsigned chunk,
                                             bool wants_sums, const void* source, BlpaSums* sums,
                                             std::uint32_t* bad, Result* result) {
  const auto* const elements = static_cast<const typename Element<type>::Bits*>(source);
  const std::int64_t begin = job.chunks.begin(chunk);
  const std::int64_t count = job.chunks.size(chunk);
  const std::int64_t size = job.chunks.plane_size;
  const std::int64_t outer = begin / size;
  const auto within = static_cast<std::uint32_t>(begin % size);
  double sum = 0.0;
  double squares = 0.0;
  bool strange = false;
  bool negative = false;
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) {
    std::uint32_t e = within + static_cast<std::uint32_t>(i);
    const std::int64_t o = outer + job.order.by_size.split(e);
    std::uint32_t w = e;
    std::uint32_t h = job.order.by_width.split(w);
    const std::uint32_t d = job.order.by_height.split(h);
    const PlaneLayout& l = job.order.layout;
    const float x = value_of<type>(elements[o * l.outer_stride + channel * l.inner_stride +
                                            d * l.stride[0] + h * l.stride[1] + w * l.stride[2]]);
    strange |= !(fabsf(x) <= kAffineMaxMagnitude);
    negative |= x < 0.0F;
    const double value = x;
    sum += value;
    squares += value * value;
  }
  if (strange) bad[channel] = 1;
  if (strange || (job.with_sign && negative)) result->not_representable = 1;
  if (!wants_sums) return;
  sum = sum_in_halves(sum);
  squares = sum_in_halves(squares);
  if (threadIdx.x == 0) sums[channel * job.chunks.count + chunk] = {sum, squares};
}

/// Does so for all chunks.
template <ElementType type>
__global__ void __launch_bounds__(kSumThreads)
    blpa_survey(const BlpaJob job, bool wants_sums, const void* source, BlpaSums* sums,
                std::uint32_t* bad, Result* result) {
  const auto channels = static_cast<unsigned>(job.channels);
  take_pieces(job.channels * job.chunks.count, [&](unsigned piece) {
    survey_chunk<type>(job, piece % channels, piece / channels, wants_sums, source, sums, bad,
                       result);
  });
}

/// Computes the grid of a channel. All threads of the block must call it.
__device__ __forceinline__ void make_grid(const BlpaJob& job, std::int64_t c, const float* center,
                                          const float* scale, const BlpaSums* sums,
                                          const std::uint32_t* bad, BlpaState* state,
                                          std::byte* out, Result* result) {
  const bool given = center != nullptr && scale != nullptr;
  double sum = 0.0;
  double squares = 0.0;
  if (!given) {
    for (std::int64_t k = threadIdx.x; k < job.chunks.count; k += kSumThreads) {
      sum += sums[c * job.chunks.count + k].sum;
      squares += sums[c * job.chunks.count + k].squares;
    }
    sum = sum_in_halves(sum);
    squares = sum_in_halves(squares);
  }
  if (threadIdx.x != 0) return;
  BlpaGrid grid = poisoned_grid();
  if (bad[c] == 0) {
    grid = given ? blpa_grid(center[c], scale[c], job.bits)
                 : blpa_grid_of_sums(sum, squares,
                                     job.channels == 0 ? 0 : job.elements / job.channels, job.bits);
  }
  if (grid == poisoned_grid()) result->not_representable = 1;
  if (job.with_sign && !keeps_signs(grid, job.bits)) atomicOr(&state->has_signs, 1U);
  reinterpret_cast<std::uint32_t*>(out)[c] =
      grid.step | std::uint32_t{static_cast<std::uint16_t>(grid.bin)} << 16;
}

/// Does so for all channels.
static __global__ void __launch_bounds__(kSumThreads)
    blpa_grids(const BlpaJob job, const float* center, const float* scale, const BlpaSums* sums,
               const std::uint32_t* bad, BlpaState* state, std::byte* out, Result* result) {
  take_pieces(job.channels, [&](std::int64_t c) {
    make_grid(job, c, center, scale, sums, bad, state, out, result);
  });
}

__device__ __forceinline__ BlpaGrid load_grid(const std::byte* encoded, std::int64_t channel) {
  const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(encoded)[channel];
  return {static_cast<std::uint16_t>(word), static_cast<std::int16_t>(word >> 16)};
}

/// Finds out whether the encoded data have sign bits.
static __global__ void blpa_find_signs(const BlpaJob job, const std::byte* in, BlpaState* state) {
  if (!job.with_sign) return;
  take_items(job.channels, [&](std::int64_t c) {
    if (!keeps_signs(load_grid(in, c), job.bits)) atomicOr(&state->has_signs, 1U);
  });
}

static __global__ void blpa_clear(BlpaState* state) {
  state->has_signs = 0;
}

/// Tells to which channels a block's elements belong.
struct ChannelPlace {
  std::uint32_t within, channel;

  __device__ __forceinline__ ChannelPlace(const BlpaJob& job, std::int64_t first)
      : within(static_cast<std::uint32_t>(first % job.chunks.plane_size)),
        channel(static_cast<std::uint32_t>(first / job.chunks.plane_size % job.channels)) {}

  __device__ __forceinline__ std::uint32_t of(const BlpaJob& job, std::uint32_t i) const {
    std::uint32_t e = within + i;
    std::uint32_t c = channel + job.order.by_size.split(e);
    job.order.by_inner.split(c);
    return c;
  }
};

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    blpa_encode(const BlpaJob job, const void* source, const BlpaState* state, std::byte* out,
                Result* result) {
  using Bits = typename Element<type>::Bits;
  const bool has_signs = state->has_signs != 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.end[has_signs]);
  }
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    const ChannelPlace channels(job, first);
    Patterns<Bits> x = {};
    load_any(static_cast<const Bits*>(source), place, i, count, job.vectors, x);
    std::uint32_t codes[kStretch];
    unsigned signs = 0;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      codes[j] = 0;
      if (j >= count) continue;
      const float value = value_of<type>(x.of[j]);
      signs |= static_cast<unsigned>(value > 0.0F) << j;
      const BlpaGrid grid = load_grid(out, channels.of(job, i + j));
      if (!(grid == poisoned_grid())) {
        codes[j] = blpa_code(value, blpa_scale(grid, job.bits), job.bits);
      }
    }
    const std::int64_t stretch = (first + i) / kStretch;
    if (has_signs) out[job.signs_at + stretch] = static_cast<std::byte>(signs);
    store_bytes(out + job.codes_at[has_signs] + stretch * job.bits, pack_stretch(codes, job.bits),
                (count * job.bits + 7) / 8);
  });
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    blpa_decode(const BlpaJob job, const std::byte* in, std::int64_t in_size, Reads reads,
                const BlpaState* state, void* target) {
  using Bits = typename Element<type>::Bits;
  const bool has_signs = state->has_signs != 0;
  if (job.end[has_signs] > in_size) return;
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    const ChannelPlace channels(job, first);
    const std::int64_t stretch = (first + i) / kStretch;
    const std::uint64_t packed =
        load_bytes(in + job.codes_at[has_signs] + stretch * job.bits, (count * job.bits + 7) / 8);
    const unsigned signs = has_signs ? static_cast<unsigned>(in[job.signs_at + stretch]) : 0U;
    const std::uint32_t mask = (1U << job.bits) - 1;
    Patterns<Bits> x = {};
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      const BlpaGrid grid = load_grid(in, channels.of(job, i + j));
      const auto code = static_cast<std::uint32_t>(packed >> (j * job.bits)) & mask;
      const bool positive = has_signs ? (signs >> j & 1U) != 0
                                      : !job.with_sign || blpa_middle(code, grid, job.bits) > 0.0F;
      if (reads == Reads::sign) {
        x.of[j] = positive ? static_cast<Bits>(codecs::bits_of_one(type)) : Bits{0};
      } else if (grid == poisoned_grid()) {
        x.of[j] = static_cast<Bits>(codecs::bits_of_nan(type));
      } else {
        x.of[j] = bits_of<type>(positive ? blpa_value(code, grid, job.bits) : 0.0F);
      }
    }
    store_any(static_cast<Bits*>(target), place, i, count, job.vectors, x);
  });
}

}  // namespace cinch::codecs::cuda
