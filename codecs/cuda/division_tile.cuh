// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division_table.cuh"
#include "codecs/cuda/pairs.cuh"

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
  float mean, lo, scale, reserved;
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
  std::int32_t planes;  ///< a multiple of planes_per_byte
  std::int64_t count;   ///< number of tiles
  FastDivide by_planes;
  std::int32_t vectors;  ///< if planes lie side by side, vectors across a tile: a power of two
  std::int32_t shift;    ///< its logarithm
  std::int32_t padded;   ///< bit_ceil of the block's width
  /// Elements left out after each eight planes, so that threads that store vectors of neighbouring
  /// planes use different banks.
  std::int32_t pad;
  std::int32_t entries;
  std::int32_t cells_at, bounds_at, offsets_at, shapes_at, table_at;
  std::size_t shared_bytes;

  DivisionTile(const DivisionJob& job, std::int32_t plane_count, std::size_t element) noexcept
      : planes(plane_count),
        count((job.layout.planes() + planes - 1) / planes),
        by_planes(planes),
        vectors(planes / static_cast<std::int32_t>(16 / element)),
        shift(std::bit_width(static_cast<std::uint32_t>(vectors)) - 1),
        padded(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])))),
        pad(job.side_by_side ? 128 / std::clamp(vectors, 1, 8) / static_cast<int>(element) : 0),
        entries(table_entries(job, job.run())) {
    const std::int64_t elements = std::int64_t{planes} * job.size + (planes + 7) / 8 * pad;
    const auto place = [this](std::int64_t bytes) {
      const auto at = static_cast<std::int32_t>(shared_bytes);
      shared_bytes += static_cast<std::size_t>(bytes + 15) / 16 * 16;
      return at;
    };
    shared_bytes = 0;
    place((elements + kStretch) * static_cast<std::int64_t>(element));
    const std::size_t cell = job.run() == kStretch ? sizeof(float) : sizeof(RangedCell);
    cells_at = place(std::int64_t{table_cells(job, planes)} * static_cast<std::int64_t>(cell));
    bounds_at = place(std::int64_t{planes} * std::int64_t{sizeof(PlaneBounds)});
    offsets_at = place(job.contiguous ? 0 : std::int64_t{planes} * 8);
    shapes_at = place(std::int64_t{job.block_count} * kShapeBytes);
    table_at = place(std::int64_t{entries} * 2);
  }

  /// Whether a vector of elements in global memory is one pixel of neighbouring planes of the tile.
  CINCH_HD bool has_vectors(const DivisionJob& job) const noexcept {
    return job.side_by_side && vectors > 0 && vectors == 1 << shift;
  }

  /// Where a plane of the tile begins in shared memory, in elements.
  CINCH_HD std::uint32_t begin(const DivisionJob& job, std::uint32_t plane) const noexcept {
    return plane * static_cast<std::uint32_t>(job.size) +
           (plane >> 3) * static_cast<std::uint32_t>(pad);
  }
};

/// Loads some elements of a row, which end within the row.
template <ElementType type, int kCount>
__device__ __forceinline__ void load_run(const typename Element<type>::Bits* from,
                                         std::uint32_t* words) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(*from));
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 v = reinterpret_cast<const uint4*>(from)[i];
      words[4 * i] = v.x;
      words[4 * i + 1] = v.y;
      words[4 * i + 2] = v.z;
      words[4 * i + 3] = v.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    words[0] = v.x;
    words[1] = v.y;
  } else if constexpr (kBytes == 4) {
    words[0] = *reinterpret_cast<const std::uint32_t*>(from);
  } else {
    words[0] = *from;
  }
}

/// The reverse, to shared memory.
template <ElementType type, int kCount>
__device__ __forceinline__ void store_run(typename Element<type>::Bits* to,
                                          const std::uint32_t* words) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(*to));
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      store_shared_vector(to + 16 / sizeof(*to) * i, uint4{words[4 * i], words[4 * i + 1],
                                                           words[4 * i + 2], words[4 * i + 3]});
    }
  } else if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = uint2{words[0], words[1]};
  } else if constexpr (kBytes == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  } else {
    *to = static_cast<typename Element<type>::Bits>(words[0]);
  }
}

/// Loads planes whose elements lie side by side. A thread takes eight pixels of a vector of planes
/// and stores eight elements of each of them.
/// @param offsets of the planes in `source`
template <ElementType type, int kRun>
__device__ __forceinline__ void load_side_by_side(const DivisionJob& job, const DivisionTile& tile,
                                                  const typename Element<type>::Bits* source,
                                                  const std::int64_t* offsets, std::int32_t planes,
                                                  typename Element<type>::Bits* x) {
  constexpr int kVector = Element<type>::kPerVector;
  const auto size = static_cast<std::uint32_t>(job.size);
  const std::uint32_t items = (size + 7) / 8 << tile.shift;
  for (std::uint32_t i = threadIdx.x; i < items; i += kDivisionThreads) {
    const std::uint32_t vector = i & static_cast<std::uint32_t>(tile.vectors - 1);
    const std::uint32_t plane = vector * kVector;
    if (plane >= static_cast<std::uint32_t>(planes)) continue;
    const std::uint32_t pixel = (i >> tile.shift) * 8;
    const auto* from = source + offsets[plane] + pixel * job.pixel_stride;
    const std::uint32_t left = size - pixel;
    std::uint32_t words[8][4];
#pragma unroll
    for (std::uint32_t p = 0; p < 8; ++p) {
      uint4 v = {0, 0, 0, 0};
      if (p < left) v = *reinterpret_cast<const uint4*>(from);
      words[p][0] = v.x;
      words[p][1] = v.y;
      words[p][2] = v.z;
      words[p][3] = v.w;
      from += job.pixel_stride;
    }
    auto* to = x + tile.begin(job, plane) + pixel;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      std::uint32_t pixels[kStretchWords<type>];
#pragma unroll
      for (int w = 0; w < kStretchWords<type>; ++w) {
        if constexpr (kPerWord<type> == 1) {
          pixels[w] = words[w][v];
        } else {
          pixels[w] = permute_bytes(words[2 * w][v / 2], words[2 * w + 1][v / 2],
                                    v % 2 == 0 ? 0x5410 : 0x7632);
        }
      }
#pragma unroll
      for (int run = 0; run < 8; run += kRun) {
        // A single element may be the upper half of a word.
        const std::uint32_t half = pixels[run / kPerWord<type>] >> (16 * (run % kPerWord<type>));
        if (run == 0 || static_cast<std::uint32_t>(run) < left) {
          store_run<type, kRun>(to + run, kRun == 1 ? &half : pixels + run / kPerWord<type>);
        }
      }
      // A vector's planes are of one group of eight.
      to += size;
    }
  }
}

/// Loads the tile's planes, whatever the layout. All threads of the block must call it.
/// @param offsets of the planes in `source`; not read if they are contiguous
template <ElementType type, int kRun>
__device__ __forceinline__ void load_tile(const DivisionJob& job, const DivisionTile& tile,
                                          const typename Element<type>::Bits* source,
                                          std::int64_t first, std::int32_t planes,
                                          const std::int64_t* offsets,
                                          typename Element<type>::Bits* x) {
  constexpr int kVector = Element<type>::kPerVector;
  const auto count = static_cast<std::uint32_t>(planes * job.size);
  if (job.contiguous) {
    const auto* const from = kept(source + first * job.size);
    std::uint32_t done = 0;
    if (job.vectors) {
      for (std::uint32_t i = threadIdx.x; i < count / kVector; i += kDivisionThreads) {
        reinterpret_cast<uint4*>(x)[i] = reinterpret_cast<const uint4*>(from)[i];
      }
      done = count / kVector * kVector;
    }
    for (std::uint32_t i = done + threadIdx.x; i < count; i += kDivisionThreads) x[i] = from[i];
    return;
  }
  if (tile.has_vectors(job)) {
    return load_side_by_side<type, kRun>(job, tile, source, offsets, planes, x);
  }
  // Where planes interleave in memory, neighbouring threads take neighbouring planes.
  const bool interleaved = job.layout.inner_stride < job.layout.stride[2];
  const auto slots = static_cast<std::uint32_t>(tile.planes * job.size);
  for (std::uint32_t i = threadIdx.x; i < slots; i += kDivisionThreads) {
    std::uint32_t e = i;
    std::uint32_t p;
    if (interleaved) {
      p = e;
      e = tile.by_planes.split(p);
    } else {
      p = job.by_size.split(e);
    }
    if (p >= static_cast<std::uint32_t>(planes)) continue;
    x[tile.begin(job, p) + e] = source[offsets[p] + job.offset_in_plane(e)];
  }
}

}  // namespace cinch::codecs::cuda
