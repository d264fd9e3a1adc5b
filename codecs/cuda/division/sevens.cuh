// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/tile.cuh"

/// Planes of 7x7 elements that are one block, as convolutional networks end in. A thread has a
/// plane, whose elements lie in a row.
namespace cinch::codecs::cuda {

inline constexpr int kSeven = 7;
inline constexpr int kSevens = kSeven * kSeven;

template <ElementType type>
inline constexpr int kSevensWords = (kSevens + kPerWord<type> - 1) / kPerWord<type>;

/// Whether planes of the job are such. Their blocks' columns are summed as eight.
CINCH_HD inline bool is_of_sevens(const DivisionJob& job) noexcept {
  return job.block_count == 1 && job.extent[0] == 1 && job.extent[1] == kSeven &&
         job.extent[2] == kSeven && job.covers_pools && job.block[2] <= kStretch;
}

/// Loads a plane's words. An element that is alone in its word is there twice.
/// @param begin where the plane begins, in elements
template <ElementType type>
__device__ __forceinline__ void load_sevens(const typename Element<type>::Bits* x,
                                            std::uint32_t begin,
                                            std::uint32_t (&words)[kSevensWords<type>]) {
  if constexpr (kPerWord<type> == 1) {
#pragma unroll
    for (int i = 0; i < kSevens; ++i) words[i] = x[begin + i];
  } else {
    const auto* const from = reinterpret_cast<const std::uint32_t*>(x + (begin & ~1U));
    const bool odd = (begin & 1U) != 0;
    const std::uint32_t halves = odd ? 0x5432U : 0x3210U;
    std::uint32_t low = from[0];
#pragma unroll
    for (int w = 0; w < kSevens / 2; ++w) {
      const std::uint32_t high = from[w + 1];
      words[w] = permute_bytes(low, high, halves);
      low = high;
    }
    words[kSevens / 2] = permute_bytes(low, low, odd ? 0x3232U : 0x1010U);
  }
}

/// The mean of a plane.
template <ElementType type>
__device__ __forceinline__ float mean_of_sevens(const std::uint32_t (&words)[kSevensWords<type>]) {
  float sums[kSeven];
#pragma unroll
  for (int i = 0; i < kSevens; ++i) {
    const float value = value_in<type>(words[i / kPerWord<type>], i % kPerWord<type>);
    sums[i % kSeven] = i < kSeven ? value : sums[i % kSeven] + value;
  }
  const float sum =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + 0.0F));
  return sum / static_cast<float>(kSevens);
}

/// What pooling and set_ranges do for other planes: stores means and ranges, and sets cells.
/// @param least set to the least of the thread's elements if that is less
/// @pre is_of_sevens(job)
template <ElementType type>
__device__ __forceinline__ void encode_sevens(const DivisionJob& job, const DivisionTile& tile,
                                              std::int64_t first, std::int32_t planes,
                                              typename Element<type>::Bits* x, RangedCell* cells,
                                              std::uint16_t* means, std::byte* out, Result* result,
                                              float& least) {
  const RangeMaker maker(job.bits);
  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    const std::uint32_t begin = tile.layout.begin(p);
    std::uint32_t words[kSevensWords<type>];
    load_sevens<type>(x, begin, words);
    Extremes<type> extremes(words[0]);
#pragma unroll
    for (int w = 1; w < kSevensWords<type>; ++w) extremes.add(words[w]);
    const float min = extremes.min();
    const float max = extremes.max();
    least = fminf(least, min);
    std::uint16_t mean = 0;
    FloatRange range = poisoned_floats();
    if (are_quantizable(min, max)) {
      mean = bf16_nearest(mean_of_sevens<type>(words));
      const float rounded = float_of_bf16(mean);
      range = maker.range(min - rounded, max - rounded);
    } else {
      result->not_representable = 1;
    }
    means[p] = mean;
    store_range(job, out, first + p, range);
    cells[p] = {float_of_bf16(mean), range.lo, RangeMaker::scale(range.step),
                are_quantizable(min, max) ? 0U : 1U};
  }
  __syncthreads();  // planes share words with their neighbours
  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    if (!cells[p].poisoned) continue;
    for (int e = 0; e < kSevens; ++e) x[tile.layout.begin(p) + e] = 0;
  }
}

}  // namespace cinch::codecs::cuda
