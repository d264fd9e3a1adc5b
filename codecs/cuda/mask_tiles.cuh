// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/channel_tiles.cuh"
#include "codecs/cuda/codec.h"

/// Masks of tensors whose channels lie side by side.
namespace cinch::codecs::cuda {

/// Copies a tile's mask from shared to global memory. @param out of the tile's first element
template <int kVector>
__device__ __forceinline__ void store_mask_tile(const ChannelTiles& tiles,
                                                const ChannelTile<kVector>& tile,
                                                const std::uint8_t* mask, std::byte* out) {
  if (!tiles.in_bytes()) {
    const std::uint32_t bytes = tile.vectors * kVector * tiles.pixels / 8;
    for (std::uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = std::byte{mask[i]};
    return;
  }
  const std::uint32_t bytes = tile.vectors * kVector * tiles.groups;
  for (std::uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) {
    std::uint32_t group = i;
    const std::uint32_t channel = tiles.by_groups.split(group);
    if (group * 8 >= tile.pixels) continue;
    out[channel * (tiles.pixels / 8) + group] =
        std::byte{mask[i + channel / kVector * ChannelTiles::kPad]};
  }
}

/// As encode_mask (masks.cuh), of tiles of whole bytes.
template <typename T, typename Test>
__device__ __forceinline__ void encode_mask_tiles(const ChannelTiles& tiles, const void* source,
                                                  std::byte* out, Result* result,
                                                  const Test& test) {
  constexpr int kVector = ItemPatterns<T>::kVector;
  CINCH_DYNAMIC_SHARED(std::uint32_t, words);
  auto* const mask = reinterpret_cast<std::uint8_t*>(words);
  bool strange = false;
  take_pieces(tiles.count, [&](unsigned index) {
    const ChannelTile<kVector> tile(tiles, index);
    if (!tiles.in_bytes()) {
      // Threads join their bits.
      for (std::uint32_t i = threadIdx.x; i <= tile.vectors * kVector * tiles.pixels / 32;
           i += blockDim.x) {
        words[i] = 0;
      }
      __syncthreads();
    }
    tile.for_each_item(tiles, [&](std::uint32_t vector, std::uint32_t group) {
      const std::uint32_t left = tile.pixels - group * 8;
      ItemPatterns<T> x;
      x.load(static_cast<const T*>(source) + tile.offset_of(tiles, vector, group),
             tiles.pixel_stride, left);
      std::uint32_t bits[kVector] = {};
#pragma unroll
      for (std::uint32_t p = 0; p < kStretch; ++p) {
        if (p >= left) break;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          if (test(x.pixel[p].of[v], strange)) bits[v] |= 1U << p;
        }
      }
      const std::uint32_t channel = vector * kVector;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        if (tiles.in_bytes()) {
          mask[(channel + v) * tiles.groups + vector * ChannelTiles::kPad + group] =
              static_cast<std::uint8_t>(bits[v]);
        } else {
          or_code(words, static_cast<int>((channel + v) * tiles.pixels + group * 8), bits[v]);
        }
      }
    });
    __syncthreads();
    store_mask_tile(tiles, tile, mask, out + tile.logical / 8);
  });
  if (strange) result->not_representable = 1;
}

/// Sets each element of `target` to restore(pattern, bit). @param kReads whether the patterns are
/// those that `target` holds, or 0
template <typename T, bool kReads, typename Restore>
__device__ __forceinline__ void decode_mask_tiles(const ChannelTiles& tiles, const std::byte* in,
                                                  void* target, const Restore& restore) {
  constexpr int kVector = ItemPatterns<T>::kVector;
#pragma unroll 1
  for (unsigned index = blockIdx.x; index < tiles.count; index += gridDim.x) {
    const ChannelTile<kVector> tile(tiles, index);
    const auto* const mask = reinterpret_cast<const std::uint8_t*>(in) + tile.logical / 8;
    const auto skipped = static_cast<std::uint32_t>(tile.logical % 8);
    tile.for_each_item(tiles, [&](std::uint32_t vector, std::uint32_t group) {
      const std::uint32_t left = tile.pixels - group * 8;
      T* const at = static_cast<T*>(target) + tile.offset_of(tiles, vector, group);
      ItemPatterns<T> x = {};
      if constexpr (kReads) x.load(at, tiles.pixel_stride, left);
      std::uint32_t bits[kVector];
      std::uint32_t bit = skipped + vector * kVector * tiles.pixels + group * 8;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        bits[v] = mask[bit / 8];
        if (!tiles.in_bytes()) {
          bits[v] >>= bit % 8;
          if (bit % 8 + (left < 8 ? left : 8) > 8) {
            bits[v] |= std::uint32_t{mask[bit / 8 + 1]} << (8 - bit % 8);
          }
        }
        bit += tiles.pixels;
      }
#pragma unroll
      for (int p = 0; p < kStretch; ++p) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          x.pixel[p].of[v] = restore(x.pixel[p].of[v], (bits[v] >> p & 1U) != 0);
        }
      }
      x.store(at, tiles.pixel_stride, left);
    });
  }
}

}  // namespace cinch::codecs::cuda
