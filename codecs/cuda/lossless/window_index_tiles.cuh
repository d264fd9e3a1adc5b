// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/lossless/window_index_job.cuh"

/// window_index of tensors whose channels lie side by side. The origin of a pixel's windows is
/// found once for all channels of a tile.
namespace cinch::codecs::cuda {

inline constexpr int kIndexVector = 2;
using IndexTile = ChannelTile<kIndexVector>;
using IndexPatterns = ItemPatterns<std::int64_t>;
/// The origins of a tile's pixels, in shared memory.
using TileOrigins = std::uint32_t[8 * ChannelTiles::kMostGroups];

__device__ __forceinline__ void load_origins(const WindowJob& job, const IndexTile& tile,
                                             const std::int32_t* origins, std::int32_t height,
                                             std::int32_t width, TileOrigins& of_tile) {
  for (std::uint32_t p = threadIdx.x; p < tile.pixels; p += blockDim.x) {
    of_tile[p] = window_origin(job, origins, tile.pixel + p, height, width);
  }
  __syncthreads();
}

/// Adds the block's tiles to the tables. @return whether all their indices were in range
__device__ __forceinline__ bool survey_tiles(const WindowJob& job, const std::int64_t* source,
                                             std::int32_t* min, std::int32_t* max) {
  bool strange = false;
  const auto last = static_cast<std::uint32_t>(job.index_end - 1);
#pragma unroll 1
  for (unsigned index = blockIdx.x; index < job.tiles.count; index += gridDim.x) {
    const IndexTile tile(job.tiles, index);
    tile.for_each_item(job.tiles, [&](std::uint32_t vector, std::uint32_t group) {
      const auto* from = source + tile.offset_of(job.tiles, vector, group);
#pragma unroll 2
      for (std::uint32_t p = group * 8; p < group * 8 + 8 && p < tile.pixels; ++p) {
        const uint4 words = load_vector(from);
        from += job.tiles.pixel_stride;
        const std::uint32_t low[kIndexVector] = {words.x, words.z};
        const std::uint32_t high[kIndexVector] = {words.y, words.w};
        std::int32_t least[3] = {kNever, kNever, kNever};
        std::int32_t greatest[3] = {0, 0, 0};
#pragma unroll
        for (int v = 0; v < kIndexVector; ++v) {
          if (high[v] != 0 || low[v] > last) {
            strange = true;
            continue;
          }
          std::int32_t at[3];
          job.unravel(low[v], at);
#pragma unroll
          for (int axis = 0; axis < 3; ++axis) {
            if (at[axis] < least[axis]) least[axis] = at[axis];
            if (at[axis] > greatest[axis]) greatest[axis] = at[axis];
          }
        }
        std::int32_t entry[3];
        job.locate(tile.pixel + p, entry);
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
          widen(min, max, entry[axis], least[axis], greatest[axis]);
        }
      }
    });
  }
  return !strange;
}

/// @pre job.tiles.in_bytes()
static __global__ void __launch_bounds__(kRunThreads)
    window_encode_tiles(const WindowJob job, const std::int64_t* source, WindowTables* tables,
                        std::byte* codes) {
  __shared__ TileOrigins origins;
  const int bits = tables->bits;
  if (bits == 0) return;
  const bool aligned = can_access_at_once(codes, bits);
  const std::uint32_t mask = (1U << bits) - 1;
  const std::int32_t height = tables->extent[1];
  const std::int32_t width = tables->extent[2];
  take_pieces(job.tiles.count, [&](unsigned index) {
    const IndexTile tile(job.tiles, index);
    load_origins(job, tile, tables->min(), height, width, origins);
    tile.for_each_item(job.tiles, [&](std::uint32_t vector, std::uint32_t group) {
      IndexPatterns x;
      x.load(source + tile.offset_of(job.tiles, vector, group), job.tiles.pixel_stride, kStretch);
      std::int64_t stretch = tile.logical / 8 + group;
      stretch += vector * kIndexVector * (job.tiles.pixels / 8);
#pragma unroll
      for (int v = 0; v < kIndexVector; ++v) {
        std::uint32_t code[kStretch];
#pragma unroll
        for (int p = 0; p < kStretch; ++p) {
          code[p] =
              window_code(job, x.pixel[p].of[v], origins[group * 8 + p], height, width) & mask;
        }
        store_stretch_bits(codes + stretch * bits, bits, aligned, pack_stretch(code, bits));
        stretch += job.tiles.pixels / 8;
      }
    });
  });
}

static __global__ void __launch_bounds__(kRunThreads)
    window_decode_tiles(const WindowJob job, const std::byte* in, std::int64_t in_size,
                        std::int64_t codes_offset, std::int64_t* target) {
  __shared__ std::uint32_t of_code[1 << kWindowMaxBits];
  __shared__ TileOrigins of_pixel;
  const auto* const header = reinterpret_cast<const std::int32_t*>(in);
  const int bits = header[0] >> 8 & 0xFF;
  if (bits > kWindowMaxBits || codes_offset + bytes_for_bits(job.elements * bits) > in_size) return;
  const WindowOffsets offsets(job, in, bits, of_code);
  const auto* const origins = reinterpret_cast<const std::int32_t*>(in + kWindowHeaderBytes);
  const std::byte* const codes = in + codes_offset;
  const bool aligned = can_access_at_once(codes, bits);
  take_pieces(job.tiles.count, [&](unsigned index) {
    const IndexTile tile(job.tiles, index);
    load_origins(job, tile, origins, job.input[1], job.input[2], of_pixel);
    tile.for_each_item(job.tiles, [&](std::uint32_t vector, std::uint32_t group) {
      const std::uint32_t left = tile.pixels - group * 8;
      std::uint64_t packed[kIndexVector] = {};
      std::int64_t k = tile.logical + group * 8;
      k += std::int64_t{vector * kIndexVector} * job.tiles.pixels;
      if (bits > 0) {
#pragma unroll
        for (int v = 0; v < kIndexVector; ++v) {
          packed[v] = job.tiles.in_bytes()
                          ? load_stretch_bits(codes + k / 8 * bits, bits, aligned)
                          : load_codes(codes, k, bits, left < 8 ? static_cast<int>(left) : 8);
          k += job.tiles.pixels;
        }
      }
      IndexPatterns x;
#pragma unroll
      for (std::uint32_t p = 0; p < kStretch; ++p) {
        if (p >= left) break;
#pragma unroll
        for (int v = 0; v < kIndexVector; ++v) {
          x.pixel[p].word[2 * v] = offsets.index(of_pixel[group * 8 + p], packed[v]);
          x.pixel[p].word[2 * v + 1] = 0;
          packed[v] >>= bits;
        }
      }
      x.store(target + tile.offset_of(job.tiles, vector, group), job.tiles.pixel_stride, left);
    });
  });
}

}  // namespace cinch::codecs::cuda
