// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/side_by_side.cuh"
#include "codecs/cuda/division/table.cuh"
#include "codecs/cuda/launch_shape.h"

/// Whole planes in shared memory, in logical order and as they are in global memory.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDivisionThreads = 256;
/// Blocks of threads of a multiprocessor, and the shared memory of each, where planes are small.
inline constexpr unsigned kDivisionBlocks = 3;
inline constexpr std::int64_t kDivisionShared = std::int64_t{64} << 10;
inline constexpr std::int64_t kShapeBytes = 16;  ///< of a PoolShape

/// What is known of a block. Where a stretch may reach into the next plane: its plane's zero point
/// and scale too, besides its mean.
struct alignas(16) RangedCell {
  float mean, lo, scale;
  std::uint32_t poisoned;  ///< set by encode_sevens() alone
};
template <int kRun>
using DivisionCell = std::conditional_t<kRun == kStretch, float, RangedCell>;

__device__ __forceinline__ void set_mean(float& cell, float mean) {
  cell = mean;
}
__device__ __forceinline__ void set_mean(RangedCell& cell, float mean) {
  cell.mean = mean;
}
__device__ __forceinline__ float mean_of(float cell) {
  return cell;
}
__device__ __forceinline__ float mean_of(const RangedCell& cell) {
  return cell.mean;
}

/// Tiles of planes, and how a block of threads uses its shared memory. Members `*_at` are byte
/// offsets; the elements come first.
struct DivisionTile {
  std::int32_t planes;                        ///< a multiple of planes_per_byte
  std::int32_t last_planes;                   ///< of the last tile
  std::uint32_t count;                        ///< number of tiles
  std::uint32_t elements, means, code_bytes;  ///< of a tile of so many planes
  FastDivide by_planes;
  std::int32_t padded;  ///< bit_ceil of the block's width
  SideBySide layout;
  std::int32_t entries;
  std::int32_t cells_at, bounds_at, offsets_at, shapes_at, table_at;
  std::size_t shared_bytes;

  /// @param element size of one @param run elements that share a block: job.run() or less
  DivisionTile(const DivisionJob& job, std::int32_t plane_count, std::size_t element,
               int run) noexcept
      : planes(plane_count),
        last_planes(static_cast<std::int32_t>((job.layout.planes() - 1) % planes + 1)),
        count(static_cast<std::uint32_t>((job.layout.planes() + planes - 1) / planes)),
        elements(static_cast<std::uint32_t>(planes * job.size)),
        means(static_cast<std::uint32_t>(planes * job.block_count)),
        code_bytes(elements / 8 * static_cast<std::uint32_t>(job.bits)),
        by_planes(planes),
        padded(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])))),
        layout(job.pixel_stride, job.size, plane_count, element, job.side_by_side),
        entries(table_entries(job, run)) {
    const auto place = [this](std::int64_t bytes) {
      const auto at = static_cast<std::int32_t>(shared_bytes);
      shared_bytes += static_cast<std::size_t>(bytes + 15) / 16 * 16;
      return at;
    };
    shared_bytes = 0;
    place((layout.elements(planes) + kStretch) * static_cast<std::int64_t>(element));
    const std::size_t cell = run == kStretch ? sizeof(float) : sizeof(RangedCell);
    cells_at = place(std::int64_t{table_cells(job, planes)} * static_cast<std::int64_t>(cell));
    bounds_at = place(std::int64_t{planes} * std::int64_t{sizeof(PlaneBounds)});
    offsets_at = place(job.contiguous ? 0 : std::int64_t{planes} * 8);
    shapes_at = place(std::int64_t{job.block_count} * kShapeBytes);
    table_at = place(std::int64_t{entries} * 2);
  }

  /// Whether a vector of elements in global memory is one pixel of neighbouring planes of the tile.
  CINCH_HD bool has_vectors(const DivisionJob& job) const noexcept {
    return job.side_by_side && layout.vectors > 0 && layout.vectors == 1 << layout.shift;
  }
};

/// The widest block whose column sums fit into a warp, four a lane.
inline constexpr std::int64_t kTileMaxBlock = 128;

/// Elements of a tile: so many tiles for every processor, and enough in each to be worth its
/// barriers.
inline std::int64_t wanted_tile(const DivisionJob& job, const DeviceLimits& device, unsigned tiles,
                                std::int64_t most) noexcept {
  return std::clamp<std::int64_t>(job.layout.elements() / (tiles * device.processors), 1024, most);
}

/// Whole planes that a block of threads takes; 0 when not even the smallest tile fits.
/// @param element, run as for DivisionTile
inline std::int32_t planes_per_tile(const DivisionJob& job, const DeviceLimits& device,
                                    std::size_t element, int run) noexcept {
  const std::int64_t unit = planes_per_byte(job.size);
  if (std::int64_t{job.size} * unit > (std::int64_t{1} << 20) || job.block[2] > kTileMaxBlock ||
      job.block_count > kMaxTableBlocks) {
    return 0;
  }
  const auto bytes = [&](std::int64_t planes) {
    return DivisionTile(job, static_cast<std::int32_t>(planes), element, run).shared_bytes;
  };
  if (bytes(unit) > device.shared_bytes) return 0;
  const std::int64_t wanted = wanted_tile(job, device, kDivisionBlocks,
                                          kDivisionShared / static_cast<std::int64_t>(element));
  std::int64_t planes = std::max<std::int64_t>(1, wanted / (unit * job.size)) * unit;
  if (!job.contiguous) {
    // Planes may interleave in memory: eight vectors of them fill a line of the cache, and two
    // whole sectors.
    const auto vector = static_cast<std::int64_t>(16 / element);
    planes = std::bit_floor(static_cast<std::uint64_t>(std::max(planes, 4 * vector)));
    while (planes > 2 * vector && bytes(planes) > device.shared_bytes / 2) planes /= 2;
    while (planes > vector && bytes(planes) > device.shared_bytes) planes /= 2;
    planes = std::max(planes / unit, std::int64_t{1}) * unit;
  }
  while (planes > unit && bytes(planes) > device.shared_bytes) planes -= unit;
  return static_cast<std::int32_t>(planes);
}

}  // namespace cinch::codecs::cuda
