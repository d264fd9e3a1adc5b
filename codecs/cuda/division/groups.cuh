// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "codecs/cuda/division/mean.cuh"
#include "codecs/cuda/group_quant/any.cuh"
#include "codecs/formats/division/division_groups.h"

/// DIVISION with residuals in groups: a kernel for the means, then group_quant's of any groups,
/// which subtract a mean of each element that they load, or add it to each that they store.
namespace cinch::codecs::cuda {

/// Arguments for what concerns means.
struct MeansJob {
  DivisionJob division;
  std::int64_t residuals_at;  ///< byte offset of the section of the residuals
  std::int64_t count;         ///< blocks of all planes
  std::int32_t padded;        ///< columns of a block, rounded up to a power of two
  std::uint32_t lane_shift;   ///< logarithm of the lanes that sum a block's columns
  /// Elements that share a block: 8, 2 or, where rows are of an odd length, 1.
  int run;

  MeansJob(const DivisionJob& job, std::int64_t residuals) noexcept
      : division(job),
        residuals_at(residuals),
        count(job.layout.planes() * job.block_count),
        padded(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])))),
        lane_shift(static_cast<std::uint32_t>(
            std::bit_width(std::min(static_cast<std::uint32_t>(padded), kWarp)) - 1)),
        run(job.run() == 4 ? 2 : job.run()) {}

  /// Zeros the padding behind the means: less than kGroupQuantAlignment bytes.
  /// @param thread a number, for each of as many threads as the padding may have means
  __device__ __forceinline__ void store_padding(std::byte* out, std::int64_t thread) const {
    const std::int64_t pad = count + thread;
    if (pad < residuals_at / 2) reinterpret_cast<std::uint16_t*>(out)[pad] = 0;
  }
};

/// Computes the block means, several blocks a warp where they are narrow. Any number of blocks of
/// threads will do.
template <ElementType type>
__global__ void __launch_bounds__(kGroupThreads)
    division_group_means(const MeansJob job, const void* source, std::byte* out) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kGroupThreads;
  auto* const means = reinterpret_cast<std::uint16_t*>(out);
  const std::int64_t thread = std::int64_t{blockIdx.x} * kGroupThreads + threadIdx.x;
  const std::int64_t lane = threadIdx.x % kWarp;
  // Whole warps, as all their lanes sum.
  for (std::int64_t first = thread - lane; first < job.count << job.lane_shift; first += threads) {
    const std::int64_t wanted = (first + lane) >> job.lane_shift;
    const std::int64_t index = wanted < job.count ? wanted : job.count - 1;
    const float mean = block_mean<type>(job.division, job.padded, source, index);
    const bool leads = (threadIdx.x & ((1U << job.lane_shift) - 1)) == 0;
    if (leads && wanted < job.count) means[index] = held_mean(mean);
  }
  job.store_padding(out, thread);
}

/// Means of the blocks that cover the elements of a plane.
class PlaneMeans {
 public:
  __device__ __forceinline__ PlaneMeans(const MeansJob& job, const std::byte* encoded,
                                        std::int64_t plane)
      : job_(job),
        means_(reinterpret_cast<const std::uint16_t*>(encoded) + plane * job.division.block_count) {
  }

  /// Those of `count` of eight elements from e on; the others' are undefined.
  __device__ __forceinline__ void load(std::uint32_t e, int count, float (&x)[kStretch]) const {
    if (job_.run == kStretch) {
      const float mean = count > 0 ? of(e) : 0.0F;
#pragma unroll
      for (int j = 0; j < kStretch; ++j) x[j] = mean;
      return;
    }
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x[j] = j < count ? of(e + j) : 0.0F;
  }

 private:
  __device__ __forceinline__ float of(std::uint32_t e) const {
    return float_of_bf16(means_[job_.division.covering_block(e)]);
  }

  const MeansJob& job_;
  const std::uint16_t* means_;
};

/// @pre division_group_means has run
template <ElementType type>
__global__ void __launch_bounds__(kGroupThreads)
    division_group_encode(const GroupJob job, const MeansJob means, const void* source,
                          std::byte* out, Result* result) {
  std::byte* const residuals = out + means.residuals_at;
  store_group_head(job, residuals, means.residuals_at, result);
  const auto load = [&](const BlockPlace& place, std::int64_t p, std::uint32_t i, int count,
                        float(&x)[kStretch]) {
    load_group_stretch<type>(job, source, place, i, count, x);
    float mean[kStretch];
    PlaneMeans(means, out, p).load(i, count, mean);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x[j] -= mean[j];
  };
  encode_any_groups(job, nullptr, load, residuals, result);
}

template <ElementType type, bool subtractive>
__global__ void __launch_bounds__(kGroupThreads)
    division_group_decode(const GroupJob job, const MeansJob means, const std::byte* in,
                          void* target) {
  const auto store = [&](const BlockPlace& place, std::int64_t p, std::uint32_t e, std::uint32_t i,
                         int count, const float(&x)[kStretch], bool poisoned) {
    float mean[kStretch];
    PlaneMeans(means, in, p).load(e, count, mean);
    float sum[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) sum[j] = mean[j] + x[j];
    store_group_stretch<type>(job, target, place, i, count, sum, poisoned);
  };
  decode_any_stretches<subtractive>(job, nullptr, in + means.residuals_at, store);
}

}  // namespace cinch::codecs::cuda
