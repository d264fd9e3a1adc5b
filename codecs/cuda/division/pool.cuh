// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/tile.cuh"

/// DIVISION's first steps on planes in shared memory: the blocks' means, and the bounds of what is
/// left when they are subtracted.
namespace cinch::codecs::cuda {

/// Widens a plane's bounds by those of a block. All threads of the warp must call it, each with a
/// block.
__device__ __forceinline__ void add_bounds(std::uint32_t plane, float min, float max, bool bad,
                                           PlaneBounds* bounds) {
  std::uint32_t low = ordered(min);
  std::uint32_t high = ordered(max);
  // Where planes have many blocks, a warp's are mostly of one plane.
  const std::uint32_t first = __shfl_sync(kAllLanes, plane, 0);
  if (__all_sync(kAllLanes, plane == first) != 0) {
    low = __reduce_min_sync(kAllLanes, low);
    high = __reduce_max_sync(kAllLanes, high);
    bad = __any_sync(kAllLanes, bad) != 0;
    if (threadIdx.x % kWarp != 0) return;
  }
  atomicMin(&bounds[plane].min, low);
  atomicMax(&bounds[plane].max, high);
  if (bad) atomicOr(&bounds[plane].bad, 1U);
}

/// Eight elements of a row, of which `width` are there; the others repeat the last ones.
template <ElementType type, int kRun>
class RowReader {
 public:
  __device__ __forceinline__ explicit RowReader(std::int32_t width) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      at_[run] = run * kRun < width - kRun ? run * kRun : width - kRun;
    }
  }

  __device__ __forceinline__ void load(const typename Element<type>::Bits* row,
                                       std::uint32_t (&words)[kStretchWords<type>]) const {
    if constexpr (kRun < kPerWord<type>) {
#pragma unroll
      for (int w = 0; w < kStretchWords<type>; ++w) {
        words[w] = row[at_[2 * w]] | std::uint32_t{row[at_[2 * w + 1]]} << 16;
      }
    } else {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        load_run<type, kRun>(row + at_[run], words + run * kRun / kPerWord<type>);
      }
    }
  }

 private:
  static constexpr int kRuns = kStretch / kRun;
  std::int32_t at_[kRuns];
};

/// What is averaged for a block, in its plane.
struct alignas(16) PoolShape {
  std::uint32_t begin;
  std::uint32_t size;  ///< columns in the lowest 4 bits, rows above
  std::uint32_t depth;
  float share;  ///< 1 / number of elements if that is a power of two, else 0
};

/// Sets the shape of each block of a plane. All threads of the block must call it; the caller
/// synchronizes them.
__device__ __forceinline__ void fill_shapes(const DivisionJob& job, PoolShape* shapes) {
  for (std::int32_t b = threadIdx.x; b < job.block_count; b += kDivisionThreads) {
    const PoolWindow window(job, static_cast<std::uint32_t>(b));
    const std::int32_t width = window.w1 - window.w0;
    const std::int32_t rows = window.h1 - window.h0;
    const std::int32_t depth = window.d1 - window.d0;
    const std::int32_t count = width * rows * depth;
    const bool power = (count & (count - 1)) == 0;
    shapes[b].begin = static_cast<std::uint32_t>(
        (window.d0 * job.extent[1] + window.h0) * job.extent[2] + window.w0);
    shapes[b].size = static_cast<std::uint32_t>(rows << 4 | width);
    shapes[b].depth = static_cast<std::uint32_t>(depth);
    shapes[b].share = power ? 1.0F / static_cast<float>(count) : 0.0F;
  }
}

/// The mean of a block, not yet rounded, and the extremes of its elements.
template <ElementType type>
struct PooledBlock {
  float mean;
  Extremes<type> extremes;
};

/// Sums up to eight columns in adjacent pairs. @param padded their number, rounded up to a power of
/// two
__device__ __forceinline__ float sum_of_columns(const float (&sums)[kStretch],
                                                std::int32_t padded) {
  float sum = sums[0];
  if (padded >= 2) sum += sums[1];
  if (padded >= 4) sum += sums[2] + sums[3];
  if (padded == 8) sum += (sums[4] + sums[5]) + (sums[6] + sums[7]);
  return sum;
}

/// Pools a block of at most eight columns.
/// @param plane where the block's plane begins
/// @param height, row_size rows of a plane, and the elements of each
template <ElementType type, int kRun>
__device__ __forceinline__ PooledBlock<type> pool_block(const typename Element<type>::Bits* plane,
                                                        PoolShape shape, std::int32_t padded,
                                                        std::int32_t height,
                                                        std::int32_t row_size) {
  const auto width = static_cast<std::int32_t>(shape.size & 15U);
  const auto rows = static_cast<std::int32_t>(shape.size >> 4);
  const RowReader<type, kRun> reader(width);
  const auto* row = plane + shape.begin;
  std::uint32_t words[kStretchWords<type>];
  float sums[kStretch];
  reader.load(row, words);
  values_in<type>(words, sums);
  Extremes<type> extremes(words[0]);
#pragma unroll
  for (int w = 1; w < kStretchWords<type>; ++w) extremes.add(words[w]);
  const auto add_row = [&] {
    float values[kStretch];
    reader.load(row, words);
    values_in<type>(words, values);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) sums[j] += values[j];
#pragma unroll
    for (int w = 0; w < kStretchWords<type>; ++w) extremes.add(words[w]);
  };
  for (std::int32_t h = 1; h < rows; ++h) {
    row += row_size;
    add_row();
  }
#pragma unroll 1
  for (std::uint32_t d = 1; d < shape.depth; ++d) {
    row += (height - rows) * row_size;
#pragma unroll 1
    for (std::int32_t h = 0; h < rows; ++h) {
      row += row_size;
      add_row();
    }
  }
  if (kRun < kStretch && width < kStretch) {
#pragma unroll
    for (int j = 1; j < kStretch; ++j) {
      if (j >= width) sums[j] = 0.0F;
    }
  }
  float mean = sum_of_columns(sums, padded);
  if (shape.share > 0.0F) {  // dividing by a power of two is multiplying by its reciprocal
    mean *= shape.share;
  } else {
    mean /= static_cast<float>(static_cast<std::int32_t>(shape.depth) * rows * width);
  }
  return {mean, extremes};
}

/// Pools blocks of at most eight columns, a thread each, and adds their bounds to their planes'.
/// Stores the means in bfloat16.
/// @pre job.covers_pools; all threads of the block call it
/// @param least set to the least of the thread's elements if that is less
template <ElementType type, int kRun, typename Cell>
__device__ __forceinline__ void pool_narrow(const DivisionJob& job, const DivisionTile& tile,
                                            const typename Element<type>::Bits* x,
                                            const PoolShape* shapes, std::int32_t planes,
                                            Cell* cells, PlaneBounds* bounds, std::uint16_t* means,
                                            float& least) {
  const std::uint32_t total = kept(static_cast<std::uint32_t>(planes * job.block_count));
  const std::int32_t padded = kept(tile.padded);
  const std::int32_t row_size = kept(job.extent[2]);
  for (std::uint32_t begin = threadIdx.x / kWarp * kWarp; begin < total;
       begin += kDivisionThreads) {
    // Whole warps: those past the end do the last block once more.
    const std::uint32_t wanted = begin + threadIdx.x % kWarp;
    const std::uint32_t index = wanted < total ? wanted : total - 1;
    std::uint32_t block = index;
    const std::uint32_t plane = job.by_block_count.split(block);
    const PooledBlock<type> pooled = pool_block<type, kRun>(
        x + tile.layout.begin(plane), shapes[block], padded, job.extent[1], row_size);
    const std::uint16_t bits = bf16_nearest(pooled.mean);
    const float mean = float_of_bf16(bits);
    set_mean(cells[index], mean);
    means[index] = bits;
    const float min = pooled.extremes.min();
    const float max = pooled.extremes.max();
    least = fminf(least, min);
    add_bounds(plane, min - mean, max - mean, !are_quantizable(min, max), bounds);
  }
}

/// The same for blocks of any size, in steps: a group of threads sums the columns of a block.
/// @pre at most 128 columns
template <ElementType type, typename Cell>
__device__ __forceinline__ void pool_wide(const DivisionJob& job, const DivisionTile& tile,
                                          const typename Element<type>::Bits* x,
                                          std::int32_t planes, Cell* cells, std::uint16_t* means) {
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
    const auto* const from = x + tile.layout.begin(plane);
    const auto load = [&](std::int32_t d, std::int32_t h, std::int32_t w) {
      return value_of<type>(from[(d * job.extent[1] + h) * job.extent[2] + w]);
    };
    const std::int32_t w = window.w0 + column;
    float sum = column_sum(window, w, load);
    if (columns >= 2) sum += column_sum(window, w + 1, load);
    if (columns == 4) {
      sum += column_sum(window, w + 2, load) + column_sum(window, w + 3, load);
    }
    sum = pair_sum(sum, static_cast<unsigned>(lanes));
    if (index < total && column == 0) {
      means[index] = bf16_nearest(sum / window.count());
      set_mean(cells[index], float_of_bf16(means[index]));
    }
  }
}

/// Computes the bounds that pool_narrow does, element by element: for blocks that pool_wide pooled,
/// and for those that don't cover what they average.
template <ElementType type, int kRun, typename Cell>
__device__ __forceinline__ void find_bounds(const DivisionJob& job, const DivisionTile& tile,
                                            const typename Element<type>::Bits* x,
                                            const std::uint16_t* table, std::int32_t planes,
                                            const Cell* cells, PlaneBounds* bounds, float& least) {
  const auto lane = threadIdx.x % kWarp;
  for (std::int32_t p = threadIdx.x / kWarp; p < planes; p += kDivisionThreads / kWarp) {
    const auto* const plane = x + tile.layout.begin(p);
    float min = 0x1p127F;
    float max = -0x1p127F;
    bool bad = false;
    for (std::uint32_t e = lane; e < static_cast<std::uint32_t>(job.size); e += kWarp) {
      const float value = value_of<type>(plane[e]);
      const float r = value - mean_of(cell_at(cells + p * job.block_count, table[e / kRun]));
      bad |= !(fabsf(value) <= kAffineMaxMagnitude);
      least = fminf(least, value);
      min = r < min ? r : min;
      max = r > max ? r : max;
    }
    join_bounds(min, max);
    bad = __any_sync(kAllLanes, bad) != 0;
    if (lane == 0) bounds[p] = {ordered(min), ordered(max), bad ? 1U : 0U};
  }
}

}  // namespace cinch::codecs::cuda
