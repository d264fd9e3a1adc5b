// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/load.cuh"
#include "codecs/cuda/division/pool.cuh"
#include "codecs/cuda/division/sevens.cuh"
#include "codecs/cuda/elements/bits.cuh"

/// DIVISION's encoding of planes that fit into shared memory. A block of threads takes tiles of
/// whole planes, reads each element once and writes each code once.
namespace cinch::codecs::cuda {

/// Stores the bits x > 0 of a tile.
template <ElementType type>
__device__ __forceinline__ void store_signs(const DivisionJob& job, const DivisionTile& tile,
                                            const typename Element<type>::Bits* x,
                                            std::uint32_t count, std::byte* out) {
  for (std::uint32_t i = threadIdx.x; i * kStretch < count; i += kDivisionThreads) {
    std::uint32_t e = i * kStretch;
    const std::uint32_t plane = job.by_size.split(e);
    const auto* const from = x + i * kStretch + (plane >> 3) * tile.layout.pad;
    std::uint32_t words[kStretchWords<type>];
    load_run<type, kStretch>(from, words);
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      bits |= static_cast<unsigned>(value_in<type>(words[j / kPerWord<type>], j % kPerWord<type>) >
                                    0.0F)
              << j;
    }
    const std::uint32_t left = count - i * kStretch;
    if (left < kStretch) bits &= (1U << left) - 1;
    out[i] = static_cast<std::byte>(bits);
  }
}

/// Sets the ranges of a tile's planes: {lo, scale} in place of their bounds. What can't be held
/// becomes a plane of zeros.
template <ElementType type, typename Cell>
__device__ __forceinline__ void set_ranges(const DivisionJob& job, const DivisionTile& tile,
                                           std::int64_t first, std::int32_t planes,
                                           PlaneBounds* bounds, Cell* cells,
                                           typename Element<type>::Bits* x, std::uint16_t* means,
                                           std::byte* out, Result* result) {
  const RangeMaker maker(job.bits);
  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    const PlaneBounds found = bounds[p];
    FloatRange range = poisoned_floats();
    if (found.bad == 0) {
      range = maker.range(of_ordered(found.min), of_ordered(found.max));
    } else {
      result->not_representable = 1;
      auto* const plane = x + tile.layout.begin(p);
      for (std::int32_t e = 0; e < job.size; ++e) plane[e] = 0;
      for (std::int32_t b = p * job.block_count; b < (p + 1) * job.block_count; ++b) {
        set_mean(cells[b], 0.0F);
        means[b] = 0;
      }
    }
    store_range(job, out, first + p, range);
    bounds[p].min = float_bits(range.lo);
    bounds[p].max = float_bits(RangeMaker::scale(range.step));  // of a poisoned plane 0
  }
}

/// Copies the planes' zero points and scales to their cells.
__device__ __forceinline__ void fill_ranges(const DivisionJob& job, std::int32_t planes,
                                            const PlaneBounds* bounds, RangedCell* cells) {
  const auto count = static_cast<std::uint32_t>(planes * job.block_count);
  for (std::uint32_t i = threadIdx.x; i < count; i += kDivisionThreads) {
    const PlaneBounds& plane = bounds[job.by_block_count.quotient(i)];
    cells[i].lo = float_of_bits(plane.min);
    cells[i].scale = float_of_bits(plane.max);
  }
}

/// A tile whose codes are stored.
template <ElementType type, int kRun>
struct QuantizedTile {
  const typename Element<type>::Bits* x;
  const std::uint16_t* table;
  const DivisionCell<kRun>* cells;
  const PlaneBounds* ranges;  ///< {lo, scale}
  std::uint32_t count;        ///< elements
  std::int64_t stretch;       ///< number of the first stretch
  std::byte* to;              ///< of its codes

  /// The joined codes of the tile's stretch `i`.
  __device__ __forceinline__ std::uint64_t codes(const DivisionJob& job, const DivisionTile& tile,
                                                 std::uint32_t i, const CodePacker& packer) const {
    std::uint32_t e = i * kStretch;
    const std::uint32_t plane = job.by_size.split(e);
    std::uint32_t words[kStretchWords<type>];
    load_run<type, kStretch>(x + i * kStretch + (plane >> 3) * tile.layout.pad, words);
    const auto* const of_plane = cells + plane * static_cast<std::uint32_t>(job.block_count);
    float t[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; j += kRun) {
      const DivisionCell<kRun> cell = cell_at(of_plane, table[(e + j) / kRun]);
      float lo;
      float scale;
      if constexpr (kRun == kStretch) {
        lo = float_of_bits(ranges[plane].min);
        scale = float_of_bits(ranges[plane].max);
      } else {
        lo = cell.lo;
        scale = cell.scale;
      }
#pragma unroll
      for (int n = j; n < j + kRun; ++n) {
        const float value = value_in<type>(words[n / kPerWord<type>], n % kPerWord<type>);
        t[n] = ((value - mean_of(cell)) - lo) * scale;
      }
    }
    return packer.pack(t, job.keys.draw_block(static_cast<std::uint64_t>(stretch) + i));
  }
};

/// Stores the codes of whole stretches, which fill a Word each.
template <ElementType type, int kRun, typename Word>
__device__ __forceinline__ void store_whole_stretches(const DivisionJob& job,
                                                      const DivisionTile& tile,
                                                      const QuantizedTile<type, kRun>& quantized,
                                                      std::uint32_t stretches) {
  const CodePacker packer(sizeof(Word));  // eight codes of so many bits
  auto* const to = kept(reinterpret_cast<Word*>(quantized.to));
  for (std::uint32_t i = threadIdx.x; i < stretches; i += kDivisionThreads) {
    to[i] = static_cast<Word>(quantized.codes(job, tile, i, packer));
  }
}

/// Stores the codes of a tile.
template <ElementType type, int kRun>
__device__ __forceinline__ void store_codes(const DivisionJob& job, const DivisionTile& tile,
                                            const QuantizedTile<type, kRun>& quantized) {
  const std::uint32_t whole = kept(quantized.count / kStretch);
  const bool aligned = can_access_at_once(quantized.to, job.bits);
  std::uint32_t done = 0;
  if (job.bits == 2 && aligned) {
    store_whole_stretches<type, kRun, std::uint16_t>(job, tile, quantized, whole);
    done = whole;
  } else if (job.bits == 4 && aligned) {
    store_whole_stretches<type, kRun, std::uint32_t>(job, tile, quantized, whole);
    done = whole;
  }
  const auto bits = static_cast<std::uint32_t>(job.bits);
  const CodePacker packer(bits);
  for (std::uint32_t i = done + threadIdx.x; i * kStretch < quantized.count;
       i += kDivisionThreads) {
    std::uint64_t packed = quantized.codes(job, tile, i, packer);
    std::byte* const at = quantized.to + i * std::uint64_t{bits};
    if (i < whole) {
      store_stretch_bits(at, job.bits, aligned, packed);
      continue;
    }
    const std::uint32_t left = quantized.count % kStretch * bits;
    for (std::uint32_t byte = 0; 8 * byte < left; ++byte) {
      const std::uint32_t mask = left - 8 * byte < 8 ? (1U << (left - 8 * byte)) - 1 : 0xFFU;
      at[byte] = static_cast<std::byte>(static_cast<std::uint32_t>(packed) & mask);
      packed >>= 8;
    }
  }
}

/// Loads a tile's planes, and sets their bounds to those of nothing.
/// @param source, offsets as for load_tile; sets the offsets
template <ElementType type, int kRun>
__device__ __forceinline__ void begin_tile(const DivisionJob& job, const DivisionTile& tile,
                                           const typename Element<type>::Bits* source,
                                           std::int64_t first, std::int32_t planes,
                                           PlaneBounds* bounds, std::int64_t* offsets,
                                           typename Element<type>::Bits* x) {
  for (std::int32_t p = threadIdx.x; p < planes; p += kDivisionThreads) {
    bounds[p] = {0xFFFFFFFFU, 0U, 0U};
    if (!job.contiguous) offsets[p] = job.plane_begin(first + p);
  }
  if (!job.contiguous) __syncthreads();
  load_tile<type, kRun>(job, tile, source, planes, offsets, x);
}

/// @pre kRun is job.run()
template <ElementType type, int kRun>
__global__ void __launch_bounds__(kDivisionThreads, kDivisionBlocks)
    division_encode(const DivisionJob job, const DivisionTile tile, const void* source,
                    std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  using Cell = DivisionCell<kRun>;
  CINCH_DYNAMIC_SHARED(std::byte, shared);
  auto* const x = reinterpret_cast<Bits*>(shared);
  auto* const cells = reinterpret_cast<Cell*>(shared + tile.cells_at);
  auto* const bounds = reinterpret_cast<PlaneBounds*>(shared + tile.bounds_at);
  auto* const offsets = reinterpret_cast<std::int64_t*>(shared + tile.offsets_at);
  auto* const shapes = reinterpret_cast<PoolShape*>(shared + tile.shapes_at);
  auto* const table = reinterpret_cast<std::uint16_t*>(shared + tile.table_at);
  fill_table<Cell, kRun>(job, tile.entries, table);
  fill_shapes(job, shapes);
  const bool sevens = kRun == 1 && is_of_sevens(job);
  const bool narrow = job.covers_pools && job.block[2] <= kStretch;
  float least = 0.0F;
  for (std::uint32_t turn = blockIdx.x; turn < tile.count; turn += gridDim.x) {
    const std::int64_t first = turn * std::uint64_t{static_cast<std::uint32_t>(tile.planes)};
    const std::int32_t planes = turn + 1 < tile.count ? tile.planes : tile.last_planes;
    const auto count = static_cast<std::uint32_t>(planes * job.size);
    const std::uint64_t begin = turn * std::uint64_t{tile.elements};
    const auto stretch = static_cast<std::int64_t>(begin >> 3);
    auto* const means =
        kept(reinterpret_cast<std::uint16_t*>(out) + turn * std::uint64_t{tile.means});
    __syncthreads();
    begin_tile<type, kRun>(job, tile,
                           kept(static_cast<const Bits*>(source) + (job.contiguous ? begin : 0)),
                           first, planes, bounds, offsets, x);
    __syncthreads();
    if (job.with_sign) {
      store_signs<type>(job, tile, x, count, out + job.sections.signs + stretch);
      if (sevens) __syncthreads();  // what can't be held is overwritten next
    }
    if (sevens) {
      if constexpr (kRun == 1) {
        encode_sevens<type>(job, tile, first, planes, x, cells, means, out, result, least);
      }
    } else {
      if (narrow) {
        pool_narrow<type, kRun>(job, tile, x, shapes, planes, cells, bounds, means, least);
      } else {
        pool_wide<type>(job, tile, x, planes, cells, means);
        __syncthreads();
        find_bounds<type, kRun>(job, tile, x, table, planes, cells, bounds, least);
      }
      __syncthreads();
      set_ranges<type>(job, tile, first, planes, bounds, cells, x, means, out, result);
      if constexpr (kRun < kStretch) {
        __syncthreads();
        fill_ranges(job, planes, bounds, cells);
      }
    }
    __syncthreads();
    store_codes<type, kRun>(job, tile,
                            {x, table, cells, bounds, count, stretch,
                             out + job.sections.codes + turn * std::uint64_t{tile.code_bytes}});
  }
  if (job.with_sign && least < 0.0F) result->not_representable = 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.sections.end);
  }
}

}  // namespace cinch::codecs::cuda
