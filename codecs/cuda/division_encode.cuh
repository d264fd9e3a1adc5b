// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/division_job.cuh"
#include "codecs/philox.h"

/// DIVISION's encoding of planes that fit into shared memory. One block of threads takes a tile of
/// whole planes, reads each element once and writes each code once.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDivisionThreads = 256;

/// How a block of threads uses its shared memory. Members `*_at` are offsets in floats.
struct DivisionTile {
  std::int32_t planes;  ///< a multiple of planes_per_byte
  FastDivide by_planes;
  std::int32_t padded;  ///< bit_ceil of the block's width
  std::int32_t parts;   ///< warps that share a plane
  std::int32_t means_at, ranges_at, bounds_at, offsets_at;
  std::size_t shared_bytes;

  DivisionTile(const DivisionJob& job, std::int32_t plane_count) noexcept
      : planes(plane_count),
        by_planes(plane_count),
        padded(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])))) {
    constexpr std::int32_t kWarps = kDivisionThreads / kWarp;
    parts = planes < kWarps ? kWarps / planes : 1;
    const auto even = [](std::int32_t floats) { return (floats + 3) / 4 * 4; };
    means_at = even(planes * job.size);
    ranges_at = means_at + even(planes * job.block_count);
    bounds_at = ranges_at + even(2 * planes);
    offsets_at = bounds_at + even(3 * planes);
    shared_bytes = sizeof(float) * static_cast<std::size_t>(offsets_at) +
                   (job.contiguous ? 0 : sizeof(std::int64_t) * static_cast<std::size_t>(planes));
  }
};

template <ElementType type>
__device__ __forceinline__ void load_tile(const DivisionJob& job, const DivisionTile& tile,
                                          const void* source, std::int64_t first,
                                          std::int32_t planes, const std::int64_t* offsets,
                                          float* x) {
  using Bits = typename Element<type>::Bits;
  const auto* const elements = static_cast<const Bits*>(source);
  const std::int32_t count = planes * job.size;
  if (job.vectors) {
    constexpr std::int32_t kPer = Element<type>::kPerVector;
    const Bits* const from = elements + first * job.size;
    for (std::int32_t i = threadIdx.x * kPer; i + kPer <= count; i += kDivisionThreads * kPer) {
      Vector<type> v;
      v.load(from + i);
      for (std::int32_t j = 0; j < kPer; j += 4) {
        *reinterpret_cast<uint4*>(x + i + j) = uint4{
            float_bits(value_of<type>(v.bits[j])), float_bits(value_of<type>(v.bits[j + 1])),
            float_bits(value_of<type>(v.bits[j + 2])), float_bits(value_of<type>(v.bits[j + 3]))};
      }
    }
    const std::int32_t rest = count / kPer * kPer + static_cast<std::int32_t>(threadIdx.x);
    if (rest < count) x[rest] = value_of<type>(from[rest]);
    return;
  }
  if (job.contiguous) {
    const Bits* const from = elements + first * job.size;
    for (std::int32_t i = threadIdx.x; i < count; i += kDivisionThreads) {
      x[i] = value_of<type>(from[i]);
    }
    return;
  }
  // Where planes interleave in memory, neighbouring threads take neighbouring planes.
  const bool interleaved = job.layout.inner_stride < job.layout.stride[2];
  const std::int32_t slots = tile.planes * job.size;
  for (std::int32_t i = threadIdx.x; i < slots; i += kDivisionThreads) {
    std::uint32_t e = i;
    std::uint32_t p;
    if (interleaved) {
      p = e;
      e = tile.by_planes.split(p);
    } else {
      p = job.by_size.split(e);
    }
    if (static_cast<std::int32_t>(p) >= planes) continue;
    x[p * job.size + e] = value_of<type>(elements[offsets[p] + job.offset_in_plane(e)]);
  }
}

/// Stores the bits x > 0 of the tile. @return whether one of the thread's elements is negative
__device__ __forceinline__ bool store_signs(const float* x, std::int32_t count, std::byte* out) {
  bool negative = false;
  for (std::int32_t i = threadIdx.x * kStretch; i < count; i += kDivisionThreads * kStretch) {
    unsigned bits = 0;
    for (int j = 0; j < kStretch; ++j) {
      const float value = i + j < count ? x[i + j] : 0.0F;
      negative |= value < 0.0F;
      bits |= static_cast<unsigned>(value > 0.0F) << j;
    }
    out[i / 8] = static_cast<std::byte>(bits);
  }
  return negative;
}

/// Computes the means of all blocks of the tile, rounded to bfloat16. @pre at most 128 columns each
__device__ __forceinline__ void pool(const DivisionJob& job, const DivisionTile& tile,
                                     const float* x, std::int32_t planes, float* means) {
  const std::int32_t total = planes * job.block_count;
  const std::int32_t lanes = tile.padded < std::int32_t{kWarp} ? tile.padded : kWarp;
  const std::int32_t columns = tile.padded / lanes;  // of each lane: 1, 2 or 4
  const std::int32_t lane = threadIdx.x % kWarp;
  const std::int32_t column = lane % lanes * columns;
  const std::int32_t at_once = kDivisionThreads / lanes;
  for (std::int32_t begin = 0; begin < total; begin += at_once) {
    const std::int32_t index = begin + static_cast<std::int32_t>(threadIdx.x) / lanes;
    std::uint32_t block = index < total ? index : total - 1;
    const std::uint32_t plane = job.by_block_count.split(block);
    const PoolWindow window(job, block);
    const float* const from = x + plane * job.size;
    const auto load = [&](std::int32_t d, std::int32_t h, std::int32_t w) {
      return from[(d * job.extent[1] + h) * job.extent[2] + w];
    };
    const std::int32_t w = window.w0 + column;
    float sum = column_sum(window, w, load);
    if (columns >= 2) sum += column_sum(window, w + 1, load);
    if (columns == 4) {
      sum += column_sum(window, w + 2, load) + column_sum(window, w + 3, load);
    }
    sum = pair_sum(sum, static_cast<unsigned>(lanes));
    if (index < total && column == 0) {
      means[index] = float_of_bf16(bf16_nearest(sum / window.count()));
    }
  }
}

/// Replaces the elements by their residuals, and computes the bounds of each plane's residuals.
template <bool quads>
__device__ __forceinline__ void subtract_means(const DivisionJob& job, const DivisionTile& tile,
                                               std::int32_t planes, const float* means, float* x,
                                               PlaneBounds* bounds) {
  constexpr std::int32_t kEach = quads ? 4 : 1;
  constexpr std::int32_t kWarps = kDivisionThreads / kWarp;
  const std::int32_t warp = threadIdx.x / kWarp;
  const std::int32_t lane = threadIdx.x % kWarp;
  const std::int32_t part = warp % tile.parts;
  for (std::int32_t p = warp / tile.parts; p < planes; p += kWarps / tile.parts) {
    float* const plane = x + p * job.size;
    const float* const plane_means = means + p * job.block_count;
    float min = 0x1p127F;
    float max = -0x1p127F;
    bool bad = false;
    for (std::int32_t e = (part * std::int32_t{kWarp} + lane) * kEach; e < job.size;
         e += tile.parts * std::int32_t{kWarp} * kEach) {
      const float mean = plane_means[job.covering_block(e)];
      for (std::int32_t j = 0; j < kEach; ++j) {
        const float value = plane[e + j];
        bad |= !(fabsf(value) <= kAffineMaxMagnitude);
        const float r = value - mean;
        plane[e + j] = r;
        min = r < min ? r : min;
        max = r > max ? r : max;
      }
    }
    join_bounds(min, max);
    bad = __any_sync(kAllLanes, bad) != 0;
    if (lane == 0) {
      atomicMin(&bounds[p].min, ordered(min));
      atomicMax(&bounds[p].max, ordered(max));
      if (bad) atomicOr(&bounds[p].bad, 1U);
    }
  }
}

/// Stores the codes of the tile's residuals. The first has logical index `k0`, a multiple of 8.
__device__ __forceinline__ void store_codes(const DivisionJob& job, const float* r,
                                            std::int32_t count, std::int64_t k0,
                                            const float2* ranges, std::byte* out) {
  const bool whole = job.size % kStretch == 0;
  for (std::int32_t i = threadIdx.x * kStretch; i < count; i += kDivisionThreads * kStretch) {
    const philox::Block draws = philox::draw_block(job.key, static_cast<std::uint64_t>(k0 + i) / 8);
    std::uint32_t e = i;
    std::uint32_t p = job.by_size.split(e);
    float2 range = ranges[p];
    std::uint32_t codes[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (!whole && e == static_cast<std::uint32_t>(job.size)) {
        e = 0;
        ++p;
        range = i + j < count ? ranges[p] : float2{0.0F, -1.0F};
      }
      ++e;
      const std::uint32_t draw = draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
      const bool good = range.y >= 0.0F && i + j < count;
      codes[j] = good ? affine_code(r[i + j], range.x, range.y, job.bits, draw) : 0U;
    }
    const std::int32_t left = count - i;
    store_bytes(out + std::int64_t{i / kStretch} * job.bits, pack_stretch(codes, job.bits),
                left >= kStretch ? job.bits : (left * job.bits + 7) / 8);
  }
}

template <ElementType type, bool quads>
__global__ void __launch_bounds__(kDivisionThreads)
    division_encode(const DivisionJob job, const DivisionTile tile, const void* source,
                    std::byte* out, Result* result) {
  CINCH_DYNAMIC_SHARED(float, x);
  float* const means = x + tile.means_at;
  auto* const ranges = reinterpret_cast<float2*>(x + tile.ranges_at);  // {lo, scale or -1}
  auto* const bounds = reinterpret_cast<PlaneBounds*>(x + tile.bounds_at);
  auto* const offsets = reinterpret_cast<std::int64_t*>(x + tile.offsets_at);
  const std::int64_t first = std::int64_t{blockIdx.x} * tile.planes;
  const std::int64_t left = job.layout.planes() - first;
  const std::int32_t planes = left < tile.planes ? static_cast<std::int32_t>(left) : tile.planes;
  const std::int64_t k0 = first * job.size;
  const std::int32_t count = planes * job.size;

  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    bounds[p] = {0xFFFFFFFFU, 0U, 0U};
    if (!job.contiguous) offsets[p] = job.plane_begin(first + p);
  }
  if (!job.contiguous) __syncthreads();
  load_tile<type>(job, tile, source, first, planes, offsets, x);
  __syncthreads();

  bool negative = false;
  if (job.with_sign) negative = store_signs(x, count, out + job.sections.signs + k0 / 8);
  pool(job, tile, x, planes, means);
  __syncthreads();
  subtract_means<quads>(job, tile, planes, means, x, bounds);
  __syncthreads();

  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    AffineRange range = poisoned_range();
    ranges[p] = {0.0F, -1.0F};
    if (bounds[p].bad != 0) {
      result->not_representable = 1;
    } else {
      range = affine_range(of_ordered(bounds[p].min), of_ordered(bounds[p].max), job.bits);
      ranges[p] = {float_of_bf16(range.lo), affine_scale(range)};
    }
    store_range(job, out, first + p, range);
  }
  if (negative) result->not_representable = 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.sections.end);
  }
  auto* const mean_bits = reinterpret_cast<std::uint16_t*>(out) + first * job.block_count;
  for (std::int32_t i = threadIdx.x; i < planes * job.block_count; i += kDivisionThreads) {
    const bool bad = bounds[job.by_block_count.quotient(i)].bad != 0;
    mean_bits[i] = bad ? std::uint16_t{0} : bf16_nearest(means[i]);
  }
  __syncthreads();
  store_codes(job, x, count, k0, ranges, out + job.sections.codes + k0 / 8 * job.bits);
}

}  // namespace cinch::codecs::cuda
