// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/job.cuh"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/elements/pairs.cuh"

/// DIVISION's encoding of rows, a warp each, without shared memory: every block is a stretch. A row
/// is read twice, the second time from a cache.
namespace cinch::codecs::cuda {

inline constexpr unsigned kRowThreads = 256;
inline constexpr unsigned kRowBlocks = 4;  ///< of a multiprocessor

/// Whether rows of the job can be encoded so.
inline bool is_of_rows(const DivisionJob& job) noexcept {
  return job.vectors && job.extent[0] == 1 && job.extent[1] == 1 && job.block[2] == kStretch &&
         job.size % kStretch == 0 && job.covers_pools;
}

/// Loads a stretch from global memory.
template <ElementType type>
__device__ __forceinline__ void load_words(const uint4* from,
                                           std::uint32_t (&words)[kStretchWords<type>]) {
#pragma unroll
  for (int i = 0; i < kStretchWords<type> / 4; ++i) {
    const uint4 v = from[i];
    words[4 * i] = v.x;
    words[4 * i + 1] = v.y;
    words[4 * i + 2] = v.z;
    words[4 * i + 3] = v.w;
  }
}

/// The bounds of a row's residuals. All lanes have the same in the end.
struct RowBounds {
  float min = 0x1p127F;
  float max = -0x1p127F;
  bool bad = false;

  __device__ __forceinline__ void add(float block_min, float block_max, float mean) {
    bad |= !are_quantizable(block_min, block_max);
    min = fminf(min, block_min - mean);
    max = fmaxf(max, block_max - mean);
  }
  __device__ __forceinline__ void join() {
    min = of_ordered(__reduce_min_sync(kAllLanes, ordered(min)));
    max = of_ordered(__reduce_max_sync(kAllLanes, ordered(max)));
    bad = __any_sync(kAllLanes, bad) != 0;
  }
};

/// The mean of a stretch, as it is stored.
__device__ __forceinline__ std::uint16_t stretch_mean(const float (&x)[kStretch]) {
  const float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  return bf16_nearest(sum * 0.125F);
}

/// Stores the means of a row's blocks. @param least lowered to the least element
template <ElementType type>
__device__ __forceinline__ RowBounds pool_row(const uint4* row, std::uint32_t stretches,
                                              std::uint16_t* means, float& least) {
  constexpr unsigned kVectors = kStretchWords<type> / 4;
  RowBounds bounds;
  for (std::uint32_t s = threadIdx.x % kWarp; s < stretches; s += kWarp) {
    std::uint32_t words[kStretchWords<type>];
    load_words<type>(row + s * kVectors, words);
    Extremes<type> extremes(words[0]);
#pragma unroll
    for (int w = 1; w < kStretchWords<type>; ++w) extremes.add(words[w]);
    float x[kStretch];
    values_in<type>(words, x);
    const std::uint16_t mean = stretch_mean(x);
    means[s] = mean;
    const float min = extremes.min();
    least = fminf(least, min);
    bounds.add(min, extremes.max(), float_of_bf16(mean));
  }
  __syncwarp();
  bounds.join();
  return bounds;
}

/// A row whose codes are stored. Its means are computed again: that is less than reading them.
template <ElementType type>
struct QuantizedRow {
  const uint4* from;
  std::int64_t stretch;  ///< number of the first one
  std::uint32_t stretches;
  float lo, scale;

  template <typename Store>
  __device__ __forceinline__ void store_codes(const DivisionJob& job, const CodePacker& packer,
                                              std::byte* out, const Store& store) const {
    for (std::uint32_t s = threadIdx.x % kWarp; s < stretches; s += kWarp) {
      std::uint32_t words[kStretchWords<type>];
      load_words<type>(from + s * (kStretchWords<type> / 4), words);
      float t[kStretch];
      values_in<type>(words, t);
      if (job.with_sign) {
        unsigned signs = 0;
#pragma unroll
        for (int j = 0; j < kStretch; ++j) signs |= static_cast<unsigned>(t[j] > 0.0F) << j;
        out[job.sections.signs + stretch + s] = static_cast<std::byte>(signs);
      }
      const float mean = float_of_bf16(stretch_mean(t));
#pragma unroll
      for (int j = 0; j < kStretch; ++j) t[j] = ((t[j] - mean) - lo) * scale;
      store(s, packer.pack(t, job.keys.draw_block(static_cast<std::uint64_t>(stretch) + s)));
    }
  }
};

/// @pre is_of_rows(job)
template <ElementType type>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    division_encode_rows(const DivisionJob job, const void* source, std::byte* out,
                         Result* result) {
  constexpr unsigned kWarps = kRowThreads / kWarp;
  const auto stretches = static_cast<std::uint32_t>(job.size) / kStretch;
  const bool leads = threadIdx.x % kWarp == 0;
  const bool aligned = can_access_at_once(out + job.sections.codes, job.bits);
  const RangeMaker maker(job.bits);
  float least = 0.0F;
  for (std::int64_t p = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
       p < job.layout.planes(); p += std::int64_t{gridDim.x} * kWarps) {
    const std::int64_t first = p * stretches;
    QuantizedRow<type> row = {
        kept(static_cast<const uint4*>(source) + first * (kStretchWords<type> / 4)), first,
        stretches, 0.0F, 0.0F};
    auto* const means = kept(reinterpret_cast<std::uint16_t*>(out) + first);
    const RowBounds bounds = pool_row<type>(row.from, stretches, means, least);
    FloatRange range = poisoned_floats();
    if (!bounds.bad) range = maker.range(bounds.min, bounds.max);
    if (leads) store_range(job, out, p, range);
    row.lo = range.lo;
    row.scale = RangeMaker::scale(range.step);
    std::byte* const codes = kept(out + job.sections.codes + first * job.bits);
    if (job.bits == 2 && aligned && !bounds.bad) {
      row.store_codes(job, CodePacker(2), out, [codes](std::uint32_t s, std::uint64_t packed) {
        reinterpret_cast<std::uint16_t*>(codes)[s] = static_cast<std::uint16_t>(packed);
      });
      continue;
    }
    const auto bits = static_cast<std::uint32_t>(job.bits);
    row.store_codes(job, CodePacker(bits), out, [&](std::uint32_t s, std::uint64_t packed) {
      if (bounds.bad) means[s] = 0;
      store_stretch_bits(codes + s * std::uint64_t{bits}, job.bits, aligned,
                         bounds.bad ? 0 : packed);
    });
    if (leads && bounds.bad) result->not_representable = 1;
  }
  if (job.with_sign && least < 0.0F) result->not_representable = 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.sections.end);
  }
}

}  // namespace cinch::codecs::cuda
