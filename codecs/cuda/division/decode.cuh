// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/read.cuh"
#include "codecs/cuda/division/table.cuh"

/// DIVISION's decoding of contiguous elements, and of any others.
namespace cinch::codecs::cuda {

/// A block of threads restores tile after tile of whole planes. Its shared memory holds {base,
/// step} of each block of each plane of a tile, and the table that tells the blocks of elements.
struct DecodeTiles {
  std::int32_t planes;  ///< of a tile: a multiple of planes_per_byte
  std::int64_t count;
  std::int32_t cells;  ///< more than the tile has blocks: the table leads past its end
  std::int32_t entries;
  std::size_t shared_bytes;

  DecodeTiles(const DivisionJob& job, std::int32_t plane_count) noexcept
      : planes(plane_count),
        count((job.layout.planes() + planes - 1) / planes),
        cells(table_cells(job, planes)),
        entries(table_entries(job, job.run())),
        shared_bytes(sizeof(float2) * static_cast<std::size_t>(cells) +
                     sizeof(std::uint16_t) * static_cast<std::size_t>(entries)) {}
};

/// Sets {base, step} of the blocks of some planes. @return whether the thread saw a poisoned one
__device__ __forceinline__ bool fill_cells(const DivisionJob& job, const DivisionRead& read,
                                           std::int64_t first, std::int32_t planes, float2* cells) {
  const auto count = static_cast<std::uint32_t>(planes * job.block_count);
  if (!read.values) {
    for (std::uint32_t i = threadIdx.x; i < count; i += kDecodeThreads) cells[i] = {0.0F, 1.0F};
    return false;
  }
  const std::uint16_t* const means = kept(read.means(job, first));
  const auto* const ranges =
      kept(reinterpret_cast<const std::uint16_t*>(read.in + job.sections.ranges + 4 * first));
  bool poisoned = false;
  for (std::uint32_t i = threadIdx.x; i < count; i += kDecodeThreads) {
    const std::uint32_t plane = job.by_block_count.quotient(i);
    const float lo = float_of_bf16(ranges[2 * plane]);
    const float step = float_of_bf16(ranges[2 * plane + 1]);
    cells[i] = float2{float_of_bf16(means[i]) + lo, step};
    poisoned |= step != step;
  }
  return poisoned;
}

/// Restores eight elements. @param table, cells those of the first one
/// @param positive where the signs are, read if `masked`
/// @param spoiled whether one of their planes may be poisoned
template <ElementType type, int kRun>
__device__ __forceinline__ void decode_stretch(std::uint64_t packed, std::uint32_t bits,
                                               std::uint32_t mask, const std::uint16_t* table,
                                               const float2* cells, bool masked,
                                               const std::byte* positive, bool spoiled,
                                               std::uint32_t (&words)[kStretchWords<type>]) {
  const auto low = static_cast<std::uint32_t>(packed);
  const auto high = static_cast<std::uint32_t>(packed >> (4 * bits));
  float x[kStretch];
#pragma unroll
  for (int j = 0; j < kStretch; j += kRun) {
    const float2 cell = cell_at(cells, table[j / kRun]);
#pragma unroll
    for (int i = j; i < j + kRun; ++i) {
      const std::uint32_t code = (i < 4 ? low : high) >> (i % 4 * bits) & mask;
      x[i] = fused_value(cell.x, cell.y, float_of(code));
    }
  }
  if (masked) {
    const auto signs = static_cast<unsigned>(*positive);
#pragma unroll
    for (int i = 0; i < kStretch; ++i) {
      if ((signs >> i & 1U) == 0) x[i] = 0.0F;
    }
  }
  words_of<type>(x, words);
  if (!spoiled) return;
  constexpr std::uint32_t kFirst = kPerWord<type> == 1 ? 0xFFFFFFFFU : 0xFFFFU;
#pragma unroll
  for (int i = 0; i < kStretch; ++i) {
    const std::uint32_t part = i % kPerWord<type> == 0 ? kFirst : ~kFirst;
    const float step = cell_at(cells, table[i / kRun]).y;
    std::uint32_t& word = words[i / kPerWord<type>];
    if (step != step) word = (word & ~part) | (poison<type>() & part);
  }
}

/// The pattern of one element, of any layout.
template <ElementType type>
__device__ __forceinline__ typename Element<type>::Bits decode_one(const DivisionJob& job,
                                                                   const DivisionRead& read,
                                                                   std::int64_t k,
                                                                   std::int64_t plane,
                                                                   std::uint32_t within) {
  float lo;
  float step;
  read.range(job, plane, lo, step);
  const float base = read.base(read.means(job, plane)[job.covering_block(within)], lo);
  const BitReader codes(read, static_cast<std::uint64_t>(8 * read.codes + k * read.bits));
  const std::uint32_t code = codes.load_last(0) & ((1U << read.bits) - 1);
  bool positive = true;
  if (read.masked) {
    const BitReader signs(read, static_cast<std::uint64_t>(8 * job.sections.signs + k));
    positive = (signs.load_last(0) & 1U) != 0;
  }
  std::uint32_t word = poison<type>();
  if (step == step) {
    word = positive ? word_of<type>(fused_value(base, step, float_of(code)), 0.0F) : 0U;
  }
  return static_cast<typename Element<type>::Bits>(word);
}

/// Whole stretches of a tile that are restored.
template <ElementType type, int kRun>
struct RestoredTile {
  static constexpr unsigned kVectors = kStretchWords<type> / 4;
  const float2* cells;
  const std::uint16_t* table;
  const std::byte* codes;
  const std::byte* signs;  ///< read if the job has them
  uint4* to;
  std::uint32_t stretches;

  /// The number of a stretch's plane. @param table_of where the table has the stretch
  __device__ __forceinline__ const float2* cells_of(const DivisionJob& job, std::uint32_t i,
                                                    const std::uint16_t*& table_of) const {
    std::uint32_t e = i * kStretch;
    const std::uint32_t plane = job.by_size.split(e);
    table_of = table + e / kRun;
    return cells + plane * static_cast<std::uint32_t>(job.block_count);
  }

  __device__ __forceinline__ void store(std::uint32_t i,
                                        const std::uint32_t (&words)[kStretchWords<type>]) const {
#pragma unroll
    for (unsigned v = 0; v < kVectors; ++v) {
      store_vector(to + i * std::uint64_t{kVectors} + v,
                   uint4{words[4 * v], words[4 * v + 1], words[4 * v + 2], words[4 * v + 3]});
    }
  }

  /// Restores stretches of as many bits as a Word has bytes, 2 or 4, where no plane is poisoned and
  /// signs are not read. @pre `codes` is aligned
  template <typename Word>
  __device__ __forceinline__ void restore_plain(const DivisionJob& job) const {
    constexpr std::uint32_t kBits = sizeof(Word);
    constexpr std::uint32_t kAtOnce = 16 / kBits;  // codes that begin in the lower half of a word
    for (std::uint32_t i = threadIdx.x; i < stretches; i += kDecodeThreads) {
      const std::uint16_t* blocks;
      const float2* const of_plane = cells_of(job, i, blocks);
      const std::uint32_t packed = reinterpret_cast<const Word*>(codes)[i];
      float x[kStretch];
#pragma unroll
      for (std::uint32_t j = 0; j < kStretch; ++j) {
        const float2 cell = cell_at(of_plane, blocks[j / kRun]);
        const std::uint32_t word = j < kAtOnce ? packed : packed >> 16;
        x[j] = fused_value(cell.x, cell.y, code_at(word, kBits, j % kAtOnce * kBits));
      }
      std::uint32_t words[kStretchWords<type>];
      words_of<type>(x, words);
      store(i, words);
    }
  }

  /// Restores stretches of any data.
  __device__ __forceinline__ void restore(const DivisionJob& job, const DivisionRead& read,
                                          bool aligned, bool spoiled) const {
    const auto bits = kept(static_cast<std::uint32_t>(read.bits));
    const std::uint32_t mask = kept((1U << bits) - 1);
    for (std::uint32_t i = threadIdx.x; i < stretches; i += kDecodeThreads) {
      const std::uint16_t* blocks;
      const float2* const of_plane = cells_of(job, i, blocks);
      const std::uint64_t packed =
          load_stretch_bits(codes + i * std::uint64_t{bits}, read.bits, aligned);
      std::uint32_t words[kStretchWords<type>];
      decode_stretch<type, kRun>(packed, bits, mask, blocks, of_plane, read.masked, signs + i,
                                 spoiled, words);
      store(i, words);
    }
  }
};

/// Restores contiguous elements. @pre kRun is job.run(), and job.vectors
template <ElementType type, int kRun>
__global__ void __launch_bounds__(kDecodeThreads)
    division_decode(const DivisionJob job, const DecodeTiles tiles, const DivisionRead read,
                    void* target) {
  using Bits = typename Element<type>::Bits;
  constexpr unsigned kVectors = RestoredTile<type, kRun>::kVectors;
  CINCH_DYNAMIC_SHARED(float2, cells);
  auto* const table = reinterpret_cast<std::uint16_t*>(cells + tiles.cells);
  __shared__ bool poisoned;
  fill_table<float2, kRun>(job, tiles.entries, table);
  for (std::int64_t tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
    const std::int64_t first = tile * tiles.planes;
    const std::int64_t left = job.layout.planes() - first;
    const std::int32_t planes =
        left < tiles.planes ? static_cast<std::int32_t>(left) : tiles.planes;
    __syncthreads();
    if (threadIdx.x == 0) poisoned = false;
    __syncthreads();
    if (fill_cells(job, read, first, planes, cells)) poisoned = true;
    __syncthreads();
    const std::int64_t k0 = first * job.size;
    const auto count = static_cast<std::uint32_t>(planes * job.size);
    const RestoredTile<type, kRun> restored = {
        cells,
        table,
        kept(read.in + read.codes + (k0 >> 3) * read.bits),
        kept(read.in + job.sections.signs + (k0 >> 3)),
        kept(static_cast<uint4*>(target) + (k0 >> 3) * kVectors),
        kept(count / kStretch)};
    const bool aligned = can_access_at_once(restored.codes, read.bits);
    const bool spoiled = poisoned;
    const bool plain = aligned && !read.masked && !spoiled;
    if (plain && read.bits == 2) {
      restored.template restore_plain<std::uint16_t>(job);
    } else if (plain && read.bits == 4) {
      restored.template restore_plain<std::uint32_t>(job);
    } else {
      restored.restore(job, read, aligned, spoiled);
    }
    // Only the last tile's elements may end within a stretch.
    if (threadIdx.x < count % kStretch) {
      std::uint32_t e = count / kStretch * kStretch + threadIdx.x;
      const std::int64_t k = k0 + e;
      const std::int64_t plane = first + job.by_size.split(e);
      static_cast<Bits*>(target)[k] = decode_one<type>(job, read, k, plane, e);
    }
  }
}

/// Restores elements of any layout, one after another.
template <ElementType type>
__global__ void __launch_bounds__(kDecodeThreads)
    division_decode_any(const DivisionJob job, const DivisionRead read, void* target) {
  using Bits = typename Element<type>::Bits;
  const std::int64_t elements = job.layout.elements();
  const std::int64_t threads = std::int64_t{gridDim.x} * kDecodeThreads;
  for (std::int64_t k = std::int64_t{blockIdx.x} * kDecodeThreads + threadIdx.x; k < elements;
       k += threads) {
    std::int64_t e = k;
    const std::int64_t plane = job.split(e);
    const auto within = static_cast<std::uint32_t>(e);
    static_cast<Bits*>(target)[job.plane_begin(plane) + job.offset_in_plane(within)] =
        decode_one<type>(job, read, k, plane, within);
  }
}

}  // namespace cinch::codecs::cuda
