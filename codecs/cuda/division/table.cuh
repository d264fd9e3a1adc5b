// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/job.cuh"

/// A table in shared memory that says which block covers which elements of a plane. What is known
/// of the blocks lies in an array of *cells*, plane after plane. A *run* is kRun elements from a
/// multiple of kRun on, which share a block (DivisionJob::run).
namespace cinch::codecs::cuda {

/// The most blocks of a plane whose cells, of 16 bytes at most, have offsets of 16 bits.
inline constexpr std::int32_t kMaxTableBlocks = 1 << 11;

/// Entries of the table. Those past the plane's end are of the planes that follow, whose cells are
/// the next ones: a stretch that begins in the plane may end there.
inline std::int32_t table_entries(const DivisionJob& job, int run) noexcept {
  return (job.size + kStretch) / run + 1;
}

/// Cells of some planes and of those that the table leads to from the last one.
inline std::int32_t table_cells(const DivisionJob& job, std::int32_t planes) noexcept {
  return (planes + 1 + kStretch / job.size) * job.block_count;
}

/// Sets each run's byte offset among the cells of its plane. All threads of the block must call it;
/// the caller synchronizes them.
template <typename Cell, int kRun>
__device__ __forceinline__ void fill_table(const DivisionJob& job, std::int32_t entries,
                                           std::uint16_t* table) {
  const auto inside = static_cast<std::uint32_t>(job.size) / kRun;
  const bool flat = job.extent[0] == 1 && job.covers_pools;
  for (std::uint32_t i = threadIdx.x; i < static_cast<std::uint32_t>(entries); i += blockDim.x) {
    std::uint32_t e = i * kRun;
    std::uint32_t block = 0;
    if (flat && i < inside) {
      const std::uint32_t h = job.by_width.split(e);
      block = job.by_cover[1].quotient(h) * static_cast<std::uint32_t>(job.blocks[2]) +
              job.by_cover[2].quotient(e);
    } else {
      block = job.by_size.split(e) * static_cast<std::uint32_t>(job.block_count);
      block += job.covering_block(e);
    }
    table[i] = static_cast<std::uint16_t>(block * sizeof(Cell));
  }
}

/// A plane's cell at an offset that the table gave.
template <typename Cell>
__device__ __forceinline__ const Cell& cell_at(const Cell* plane, std::uint32_t offset) {
  return *reinterpret_cast<const Cell*>(reinterpret_cast<const std::byte*>(plane) + offset);
}

}  // namespace cinch::codecs::cuda
