// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/division/mean.cuh"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/philox.h"

/// DIVISION's encoding of planes that don't fit into shared memory, whose blocks are wider than
/// 128, or that have more than kMaxTableBlocks of them. Reads the elements three times; the L2
/// cache serves some of these reads.
namespace cinch::codecs::cuda {

static __global__ void division_large_begin(std::int64_t planes, PlaneBounds* bounds) {
  take_items(planes, [&](std::int64_t p) { bounds[p] = {0xFFFFFFFFU, 0U, 0U}; });
}

/// Computes the block means. A warp takes blocks of planes.
template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    division_large_pool(const DivisionJob job, std::int64_t padded, const void* source,
                        std::byte* out) {
  const std::int64_t count = job.layout.planes() * job.block_count;
  constexpr unsigned kWarps = kRunThreads / kWarp;
#pragma unroll 1
  for (std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; index < count;
       index += std::int64_t{gridDim.x} * kWarps) {
    const float mean = block_mean<type>(job, padded, source, index);
    if (threadIdx.x % kWarp == 0) reinterpret_cast<std::uint16_t*>(out)[index] = bf16_nearest(mean);
  }
}

/// Where a run of elements begins.
struct LargePlace {
  std::int64_t k0;
  std::int64_t plane;
  std::uint32_t e;

  __device__ __forceinline__ LargePlace(const DivisionJob& job, std::int64_t first)
      : k0(first), plane(k0 / job.size), e(static_cast<std::uint32_t>(k0 % job.size)) {}

  /// @return the plane of the run's element `i`; `within` becomes its place in that plane
  __device__ __forceinline__ std::int64_t locate(const DivisionJob& job, std::uint32_t i,
                                                 std::uint32_t& within) const {
    within = e + i;
    return plane + job.by_size.split(within);
  }
};

template <ElementType type>
__device__ __forceinline__ float large_residual(const DivisionJob& job, const void* source,
                                                const std::byte* out, std::int64_t plane,
                                                std::uint32_t e, float& value) {
  value = load_value<type>(source, job.plane_begin(plane) + job.offset_in_plane(e));
  const auto* const means = reinterpret_cast<const std::uint16_t*>(out) + plane * job.block_count;
  return value - float_of_bf16(means[job.covering_block(e)]);
}

/// Widens the bounds of the planes of a run.
template <ElementType type>
__device__ __forceinline__ void widen_bounds(const DivisionJob& job, const LargePlace& place,
                                             const void* source, const std::byte* out,
                                             PlaneBounds* bounds, Result* result) {
  const std::int64_t elements = job.layout.elements();
  for (int j = 0; j < kStretch; ++j) {
    const std::uint32_t i = j * kRunThreads + threadIdx.x;
    const bool valid = place.k0 + i < elements;
    std::uint32_t e = 0;
    const std::int64_t plane = valid ? place.locate(job, i, e) : -1;
    float value = 0.0F;
    const float r = valid ? large_residual<type>(job, source, out, plane, e, value) : 0.0F;
    const bool bad = !(fabsf(value) <= kAffineMaxMagnitude);
    if (bad) bounds[plane].bad = 1;
    if (job.with_sign && value < 0.0F) result->not_representable = 1;

    const auto first_plane = __shfl_sync(kAllLanes, plane, 0);
    if (__all_sync(kAllLanes, plane == first_plane) != 0 && valid) {
      float min = bad ? 0x1p127F : r;
      float max = bad ? -0x1p127F : r;
      join_bounds(min, max);
      if (threadIdx.x % kWarp == 0) {
        atomicMin(&bounds[plane].min, ordered(min));
        atomicMax(&bounds[plane].max, ordered(max));
      }
    } else if (valid && !bad) {
      atomicMin(&bounds[plane].min, ordered(r));
      atomicMax(&bounds[plane].max, ordered(r));
    }
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    division_large_bounds(const DivisionJob job, const void* source, const std::byte* out,
                          PlaneBounds* bounds, Result* result) {
  for_each_run(job.layout.elements(), [&](std::int64_t first) {
    widen_bounds<type>(job, LargePlace(job, first), source, out, bounds, result);
  });
}

/// Stores the range of a plane.
__device__ __forceinline__ void make_range(const DivisionJob& job, std::int64_t p,
                                           const PlaneBounds* bounds, std::byte* out,
                                           Result* result) {
  if (bounds[p].bad == 0) {
    store_range(job, out, p,
                affine_range(of_ordered(bounds[p].min), of_ordered(bounds[p].max), job.bits));
    return;
  }
  store_range(job, out, p, poisoned_range());
  auto* const means = reinterpret_cast<std::uint16_t*>(out) + p * job.block_count;
  for (std::int32_t b = 0; b < job.block_count; ++b) means[b] = 0;
  result->not_representable = 1;
}

static __global__ void division_large_ranges(const DivisionJob job, const PlaneBounds* bounds,
                                             std::byte* out, Result* result) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.sections.end);
  }
  take_items(job.layout.planes(), [&](std::int64_t p) { make_range(job, p, bounds, out, result); });
}

/// Stores the codes of the calling thread's stretch of a run.
template <ElementType type>
__device__ __forceinline__ void store_large_codes(const DivisionJob& job, const LargePlace& place,
                                                  const void* source, std::byte* out) {
  const std::int64_t left = job.layout.elements() - place.k0;
  const std::uint32_t i = threadIdx.x * kStretch;
  if (i >= left) return;
  const std::int64_t k = place.k0 + i;
  const int count = left - i < kStretch ? static_cast<int>(left - i) : kStretch;
  const philox::Block draws = job.keys.draw_block(static_cast<std::uint64_t>(k) / 8);
  std::uint32_t codes[kStretch] = {};
  unsigned signs = 0;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j >= count) continue;
    std::uint32_t e = 0;
    const std::int64_t plane = place.locate(job, i + j, e);
    const AffineRange range = load_range(job, out, plane);
    float value = 0.0F;
    const float r = large_residual<type>(job, source, out, plane, e, value);
    signs |= static_cast<unsigned>(value > 0.0F) << j;
    const std::uint32_t draw = draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
    if (!(range == poisoned_range())) {
      codes[j] = affine_code(r, float_of_bf16(range.lo), affine_scale(range), job.bits, draw);
    }
  }
  if (job.with_sign) out[job.sections.signs + k / 8] = static_cast<std::byte>(signs);
  store_bytes(out + job.sections.codes + k / 8 * job.bits, pack_stretch(codes, job.bits),
              (count * job.bits + 7) / 8);
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    division_large_codes(const DivisionJob job, const void* source, std::byte* out) {
  for_each_run(job.layout.elements(), [&](std::int64_t first) {
    store_large_codes<type>(job, LargePlace(job, first), source, out);
  });
}

}  // namespace cinch::codecs::cuda
