// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/groups.cuh"
#include "codecs/cuda/division/load.cuh"
#include "codecs/cuda/division/pool.cuh"
#include "codecs/cuda/division/read.cuh"
#include "codecs/cuda/group_quant/decode.cuh"

/// DIVISION with residuals in groups, of planes that fit into shared memory and are whole
/// stretches. A block of threads takes tiles of planes, as division_encode does. Groups lie on
/// warps as group_quant's do. Elements are read once.
namespace cinch::codecs::cuda {

/// Whether planes can be encoded so.
inline bool has_group_tiles(const GroupJob& groups, const MeansJob& means) noexcept {
  return groups.fits_warp() && groups.size % kStretch == 0 && means.run > 1 &&
         means.division.covers_pools && means.division.block[2] <= kStretch;
}

/// As kept(std::uint32_t).
__device__ __forceinline__ std::int64_t kept_long(std::int64_t value) {
  const std::uint32_t low = kept(static_cast<std::uint32_t>(value));
  const std::uint32_t high = kept(static_cast<std::uint32_t>(value >> 32));
  return static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
}

/// The stretches of a tile's planes, which lie on lanes as if each plane's last group were full.
struct TileSlots {
  // Those that the tile begins with.
  std::int64_t stretch, group;
  std::int64_t codes;   ///< byte offset
  std::uint32_t size;   ///< of a plane
  std::uint32_t count;  ///< of all planes of the tile, with those that aren't there

  __device__ __forceinline__ TileSlots(const GroupJob& job, std::int64_t first_plane,
                                       std::int32_t planes)
      : size(kept(static_cast<std::uint32_t>(job.size) / kStretch)),
        count(kept(static_cast<std::uint32_t>(planes * job.slots))) {
    const std::int64_t first = first_plane * std::int64_t{size};
    stretch = kept_long(first);
    group = kept_long(first_plane * job.groups);
    codes = kept_long(job.codes_at + first * job.bits);
  }

  /// @param slot of the calling lane; becomes its number in the plane
  /// @param plane set to that of the tile
  template <unsigned kShift>
  __device__ __forceinline__ GroupPlace place_of(const GroupJob& job,
                                                 const GroupLanes<kShift>& lanes,
                                                 std::uint32_t& slot, std::uint32_t& plane) const {
    const std::uint32_t there = slot < count ? size : 0;
    plane = job.by_slots.split(slot);
    const std::uint32_t further = plane * size + slot;
    GroupPlace place;
    place.first = slot < there;
    place.second = slot + lanes.count() < there;
    place.stretch = stretch + further;
    place.group = group + plane * static_cast<std::uint32_t>(job.groups) + lanes.group_of(slot);
    place.codes = codes + further * static_cast<std::uint32_t>(job.bits);
    place.bits = job.bits;
    return place;
  }
};

/// Stores the means of a tile's blocks, and keeps them as cells.
template <ElementType type, int kRun>
__device__ __forceinline__ void pool_group_means(const DivisionJob& job, const DivisionTile& tile,
                                                 const typename Element<type>::Bits* x,
                                                 const PoolShape* shapes, std::int32_t planes,
                                                 float* cells, std::uint16_t* means) {
  const auto total = static_cast<std::uint32_t>(planes * job.block_count);
  for (std::uint32_t i = threadIdx.x; i < total; i += kGroupThreads) {
    std::uint32_t block = i;
    const std::uint32_t plane = job.by_block_count.split(block);
    const PooledBlock<type> pooled = pool_block<type, kRun>(
        x + tile.layout.begin(plane), shapes[block], tile.padded, job.extent[1], job.extent[2]);
    const std::uint16_t mean = held_mean(pooled.mean);
    means[i] = mean;
    cells[i] = float_of_bf16(mean);
  }
}

/// What is left of a stretch in shared memory, as words of float32.
/// @param table, cells those of the stretch
template <ElementType type, int kRun>
__device__ __forceinline__ void load_residuals(const typename Element<type>::Bits* from,
                                               const std::uint16_t* table, const float* cells,
                                               std::uint32_t (&words)[kStretch]) {
  std::uint32_t elements[kStretchWords<type>];
  load_run<type, kStretch>(from, elements);
  float x[kStretch];
  values_in<type>(elements, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    words[j] = float_bits(x[j] - cell_at(cells, table[j / kRun]));
  }
}

/// Calls f with kBits as a std::integral_constant: the job's if groups are of 256 elements and
/// codes of 2 or 4 bits, or 0.
template <typename F>
__device__ __forceinline__ void with_tile_bits(const GroupJob& job, const F& f) {
  const int bits = job.usual_bits();
  if (bits == 2) return f(std::integral_constant<int, 2>());
  if (bits == 4) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 0>());
}

/// Encodes the groups of a tile whose means are known. @param kBits of with_tile_bits
template <ElementType type, int kRun, int kBits>
__device__ __forceinline__ void encode_tile_residuals(
    const GroupJob& job, const DivisionJob& division, const DivisionTile& tile,
    const TileSlots& slots, const typename Element<type>::Bits* x, const std::uint16_t* table,
    const float* cells, std::byte* residuals, Result* result) {
  const GroupLanes<usual_shift(kBits)> lanes(job);
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < slots.count;
       begin += 2 * kGroupThreads) {
    std::uint32_t slot = begin + lanes.first();
    std::uint32_t plane = 0;
    const GroupPlace place = slots.place_of(job, lanes, slot, plane);
    // Lanes without stretches load ones that exist, which takes fewer instructions than zeros.
    if (!place.first) slot = plane = 0;
    const std::uint32_t second = place.second ? slot + lanes.count() : slot;
    const auto* const from = x + tile.layout.begin(plane);
    const float* const of_plane = cells + plane * static_cast<std::uint32_t>(division.block_count);
    const auto load = [&](std::uint32_t i, std::uint32_t(&words)[kStretch]) {
      load_residuals<type, kRun>(from + i * kStretch, table + i * (kStretch / kRun), of_plane,
                                 words);
    };
    std::uint32_t a[kStretch];
    std::uint32_t b[kStretch];
    load(slot, a);
    load(second, b);
    encode_groups<ElementType::float32, kBits, false>(job, lanes, place, a, b, residuals, result);
  }
}

/// @pre has_group_tiles, and kRun is means.run
template <ElementType type, int kRun>
__global__ void __launch_bounds__(kGroupThreads, kDivisionBlocks)
    division_group_encode_tiles(const GroupJob job, const MeansJob means, const DivisionTile tile,
                                const void* source, std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  const DivisionJob& division = means.division;
  CINCH_DYNAMIC_SHARED(std::byte, shared);
  auto* const x = reinterpret_cast<Bits*>(shared);
  auto* const cells = reinterpret_cast<float*>(shared + tile.cells_at);
  auto* const offsets = reinterpret_cast<std::int64_t*>(shared + tile.offsets_at);
  auto* const shapes = reinterpret_cast<PoolShape*>(shared + tile.shapes_at);
  auto* const table = reinterpret_cast<std::uint16_t*>(shared + tile.table_at);
  fill_table<float, kRun>(division, tile.entries, table);
  fill_shapes(division, shapes);
  std::byte* const residuals = out + means.residuals_at;
  store_group_head(job, residuals, means.residuals_at, result);
  if (blockIdx.x == 0) means.store_padding(out, threadIdx.x);
  for (std::uint32_t turn = blockIdx.x; turn < tile.count; turn += gridDim.x) {
    const std::int64_t first = turn * std::uint64_t{static_cast<std::uint32_t>(tile.planes)};
    const std::int32_t planes = turn + 1 < tile.count ? tile.planes : tile.last_planes;
    __syncthreads();
    if (!division.contiguous) {
      for (std::int32_t p = threadIdx.x; p < planes; p += kGroupThreads) {
        offsets[p] = division.plane_begin(first + p);
      }
      __syncthreads();
    }
    const auto* const from = static_cast<const Bits*>(source) +
                             (division.contiguous ? turn * std::uint64_t{tile.elements} : 0);
    load_tile<type, kRun>(division, tile, kept(from), planes, offsets, x);
    __syncthreads();
    pool_group_means<type, kRun>(
        division, tile, x, shapes, planes, cells,
        kept(reinterpret_cast<std::uint16_t*>(out) + turn * std::uint64_t{tile.means}));
    __syncthreads();
    with_tile_bits(job, [&](auto bits) {
      encode_tile_residuals<type, kRun, bits.value>(
          job, division, tile, TileSlots(job, first, planes), x, table, cells, residuals, result);
    });
  }
}

/// The residuals of a stretch. @param kBits of with_tile_bits
template <bool subtractive, int kBits>
__device__ __forceinline__ void residual_values(std::uint64_t packed, int bits, float lo,
                                                float step, std::int64_t stretch,
                                                const RoundKeys& keys, float (&x)[kStretch]) {
  if constexpr (kBits > 0 && !subtractive) {
    constexpr int kAtOnce = 16 / kBits;  // codes that begin in the lower half of a word
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      const auto word = static_cast<std::uint32_t>(j < kAtOnce ? packed : packed >> 16);
      x[j] = fused_value(lo, step, code_at(word, kBits, j % kAtOnce * kBits));
    }
  } else {
    philox::Block draws = {};
    if constexpr (subtractive) draws = keys.draw_block(static_cast<std::uint64_t>(stretch));
    group_values<subtractive>(packed, kBits > 0 ? kBits : bits, lo, step, draws, x);
  }
}

/// The words of a stretch of these residuals.
/// @param table, cells those of the stretch @param step NaN if its group is poisoned
template <ElementType type, int kRun>
__device__ __forceinline__ void add_means(const std::uint16_t* table, const float* cells,
                                          float step, float (&x)[kStretch],
                                          std::uint32_t (&words)[kStretchWords<type>]) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) x[j] = cell_at(cells, table[j / kRun]) + x[j];
  words_of<type>(x, words);
  if (step == step) return;
#pragma unroll
  for (int w = 0; w < kStretchWords<type>; ++w) words[w] = poison<type>();
}

/// Restores the groups of a tile whose means are known. @param store store(plane, stretch of the
/// plane, words) @param kBits of with_tile_bits
template <ElementType type, int kRun, bool subtractive, int kBits, typename Store>
__device__ __forceinline__ void decode_tile_residuals(const GroupJob& job,
                                                      const DivisionJob& division,
                                                      const TileSlots& slots,
                                                      const std::uint16_t* table,
                                                      const float* cells, const std::byte* in,
                                                      const RoundKeys& keys, const Store& store) {
  const GroupLanes<usual_shift(kBits)> lanes(job);
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < slots.count;
       begin += 2 * kGroupThreads) {
    std::uint32_t slot = begin + lanes.first();
    std::uint32_t plane = 0;
    const GroupPlace place = slots.place_of(job, lanes, slot, plane);
    if (!place.first) continue;
    const float* const of_plane = cells + plane * static_cast<std::uint32_t>(division.block_count);
    const int bits = kBits > 0 ? kBits : job.bits;
    const std::uint32_t range =
        *reinterpret_cast<const std::uint32_t*>(in + job.ranges_at + 4 * place.group);
    const float step = float_of_bits(range & 0xFFFF0000U);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (half == 1 && !place.second) continue;
      const std::uint32_t further = half * lanes.count();
      const std::byte* const at = in + place.codes + further * static_cast<std::uint32_t>(bits);
      float x[kStretch];
      residual_values<subtractive, kBits>(load_group_codes<kBits>(at, bits), bits,
                                          float_of_bits(range << 16), step, place.stretch + further,
                                          keys, x);
      std::uint32_t words[kStretchWords<type>];
      add_means<type, kRun>(table + (slot + further) * (kStretch / kRun), of_plane, step, x, words);
      store(plane, slot + further, words);
    }
  }
}

/// @pre has_group_tiles, kRun is means.run, and the elements are contiguous and aligned, or
/// tile.has_vectors
template <ElementType type, int kRun, bool subtractive>
__global__ void __launch_bounds__(kGroupThreads, kDivisionBlocks)
    division_group_decode_tiles(const GroupJob job, const MeansJob means, const DivisionTile tile,
                                const std::byte* in, void* target) {
  using Bits = typename Element<type>::Bits;
  const DivisionJob& division = means.division;
  CINCH_DYNAMIC_SHARED(std::byte, shared);
  auto* const x = reinterpret_cast<Bits*>(shared);
  auto* const cells = reinterpret_cast<float*>(shared + tile.cells_at);
  auto* const offsets = reinterpret_cast<std::int64_t*>(shared + tile.offsets_at);
  auto* const table = reinterpret_cast<std::uint16_t*>(shared + tile.table_at);
  fill_table<float, kRun>(division, tile.entries, table);
  const std::byte* const residuals = in + means.residuals_at;
  const RoundKeys keys(subtractive ? load_key(residuals) : RandomKey());
  for (std::uint32_t turn = blockIdx.x; turn < tile.count; turn += gridDim.x) {
    const std::int64_t first = turn * std::uint64_t{static_cast<std::uint32_t>(tile.planes)};
    const std::int32_t planes = turn + 1 < tile.count ? tile.planes : tile.last_planes;
    const auto* const of_tile =
        kept(reinterpret_cast<const std::uint16_t*>(in) + turn * std::uint64_t{tile.means});
    const auto blocks = static_cast<std::uint32_t>(planes * division.block_count);
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < blocks; i += kGroupThreads) {
      cells[i] = float_of_bf16(of_tile[i]);
    }
    if (!division.contiguous) {
      for (std::int32_t p = threadIdx.x; p < planes; p += kGroupThreads) {
        offsets[p] = division.plane_begin(first + p);
      }
    }
    __syncthreads();
    auto* const to = static_cast<Bits*>(target) + turn * std::uint64_t{tile.elements};
    const auto store = [&](std::uint32_t plane, std::uint32_t stretch,
                           const std::uint32_t(&words)[kStretchWords<type>]) {
      if (!division.contiguous) {
        store_run<type, kStretch>(x + tile.layout.begin(plane) + stretch * kStretch, words);
        return;
      }
      auto* const at = to + plane * static_cast<std::uint32_t>(division.size) + stretch * kStretch;
#pragma unroll
      for (int w = 0; w < kStretchWords<type>; w += 4) {
        store_vector(at + w * kPerWord<type>,
                     uint4{words[w], words[w + 1], words[w + 2], words[w + 3]});
      }
    };
    with_tile_bits(job, [&](auto bits) {
      decode_tile_residuals<type, kRun, subtractive, bits.value>(
          job, division, TileSlots(job, first, planes), table, cells, residuals, keys, store);
    });
    if (division.contiguous) continue;
    __syncthreads();
    store_side_by_side<type, kRun>(
        tile.layout, static_cast<std::uint32_t>(planes), x,
        [offsets](std::uint32_t plane) { return offsets[plane]; }, static_cast<Bits*>(target));
  }
}

}  // namespace cinch::codecs::cuda
