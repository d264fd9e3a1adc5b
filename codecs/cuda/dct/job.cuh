// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/header.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/device.h"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/formats/dct.h"

/// A block of threads takes chunks, and eight neighbouring lanes take a block of it. Depending on
/// the step, a lane handles a column, a row, or a row of coefficients.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDctThreads = 256;
inline constexpr int kDctLanes = 8;
static_assert(kDctThreads == kDctChunk * kDctLanes && kDctChunk == kWarp);

struct DctJob {
  DctGeometry geometry;
  std::int64_t blocks, chunks, elements;
  float bound;
  bool zero_value;
  ElementType type;
  std::int64_t payload;

  DctJob(const DctParameters& parameters, const Description& what) noexcept
      : geometry(what.layout),
        blocks(geometry.blocks()),
        chunks(geometry.chunks()),
        elements(what.layout.elements()),
        bound(parameters.error_bound),
        zero_value(parameters.zero_value),
        type(what.type),
        payload(kDctHeaderBytes + 2 * chunks) {}

  /// Number of blocks of a chunk.
  __device__ __forceinline__ int blocks_of(std::int64_t chunk) const {
    const std::int64_t left = blocks - chunk * kDctChunk;
    return left < kDctChunk ? static_cast<int>(left) : int{kDctChunk};
  }

  /// @param size the encoded size
  __device__ __forceinline__ void write_header(std::int64_t size, std::byte* out,
                                               Result* result) const {
    store_header(dct_header(type, blocks, elements, size), out, result);
  }
};

/// A ballot among the eight lanes of the calling lane's block. All lanes of the warp must call it.
__device__ __forceinline__ unsigned block_ballot(bool predicate) {
  return __ballot_sync(kAllLanes, predicate) >> (threadIdx.x % kWarp / kDctLanes * kDctLanes) &
         0xFFU;
}

/// Sums over the eight lanes of the calling lane's block. All lanes of the warp must call it.
/// @return the sum of the lanes before the calling one
__device__ __forceinline__ int scan_lanes(int own, int& total) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  int sum = own;
  for (int step = 1; step < kDctLanes; step *= 2) {
    const int before = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += before;
  }
  total = __shfl_sync(kAllLanes, sum, static_cast<int>(threadIdx.x % kWarp) | (kDctLanes - 1));
  return sum - own;
}

/// Bytes that a block adds to each part of its chunk; after a scan, where it begins in each part.
struct DctParts {
  int dcs, rows, columns, codes;

  __device__ __forceinline__ static DctParts scan(DctParts own, DctParts& total) {
    DctParts sum = own;
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    for (int step = 1; step < int{kWarp}; step *= 2) {
      const DctParts before = {
          __shfl_up_sync(kAllLanes, sum.dcs, step), __shfl_up_sync(kAllLanes, sum.rows, step),
          __shfl_up_sync(kAllLanes, sum.columns, step), __shfl_up_sync(kAllLanes, sum.codes, step)};
      if (lane >= step) {
        sum = {sum.dcs + before.dcs, sum.rows + before.rows, sum.columns + before.columns,
               sum.codes + before.codes};
      }
    }
    total = {__shfl_sync(kAllLanes, sum.dcs, 31), __shfl_sync(kAllLanes, sum.rows, 31),
             __shfl_sync(kAllLanes, sum.columns, 31), __shfl_sync(kAllLanes, sum.codes, 31)};
    return {sum.dcs - own.dcs, sum.rows - own.rows, sum.columns - own.columns,
            sum.codes - own.codes};
  }
};

/// Turns the blocks' sizes into places in a chunk of `count` blocks. All threads must call it.
/// @return the chunk's size
__device__ __forceinline__ int place_parts(int count, DctParts* parts) {
  __shared__ int size;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    DctParts total;
    const DctParts before = DctParts::scan(parts[threadIdx.x], total);
    const int rows_at = count + total.dcs;
    const int columns_at = rows_at + total.rows;
    const int codes_at = columns_at + total.columns;
    parts[threadIdx.x] = {count + before.dcs, rows_at + before.rows, columns_at + before.columns,
                          codes_at + before.codes};
    if (threadIdx.x == 0) size = codes_at + total.codes;
  }
  __syncthreads();
  return size;
}

/// Turns coefficients times their step, at y[8 * u + v], into elements, in place.
__device__ __forceinline__ void transform_back(float* y) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  __syncwarp();
  dct8_inverse(y + 8 * lane, 1);
  __syncwarp();
  dct8_inverse(y + lane, 8);
  __syncwarp();
}

/// Where element k of a block lies in memory, counted row by row.
__device__ __forceinline__ std::int64_t element_offset(const DctGeometry& geometry,
                                                       const DctGeometry::Block& block, int k) {
  const auto columns = static_cast<int>(block.columns);
  return block.offset + k / columns * geometry.row_stride() +
         k % columns * geometry.column_stride();
}

}  // namespace cinch::codecs::cuda
