// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/channel_tiles.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/elements/bits.cuh"

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

/// Whether a codec's test of elements can test two elements of 16 bits at once: sets bits 15 and 31
/// of what it returns, and of `strange`, and any others.
template <typename Test, typename T>
concept TestsPairs = sizeof(T) == 2 && requires(const Test& test, std::uint32_t& strange) {
  test.pair(std::uint32_t{}, strange);
};
inline constexpr std::uint32_t kPairBits = 0x80008000U;

/// Tests an item's elements: bit p of bits[v] is that of pixel p and channel v.
template <typename T, typename Test>
__device__ __forceinline__ void test_item(const ItemPatterns<T>& x, const Test& test,
                                          std::uint32_t (&bits)[ItemPatterns<T>::kVector],
                                          bool& strange) {
  if constexpr (TestsPairs<Test, T>) {
    std::uint32_t any = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t both = 0;  // the bits of each channel below its latest one, in bit 15 or 31
#pragma unroll
      for (int p = 0; p < kStretch; ++p) {
        both = both >> 1 | (test.pair(x.pixel[p].word[w], any) & kPairBits);
      }
      bits[2 * w] = both >> 8 & 0xFF;
      bits[2 * w + 1] = both >> 24;
    }
    strange |= (any & kPairBits) != 0;
  } else {
#pragma unroll
    for (int v = 0; v < ItemPatterns<T>::kVector; ++v) {
      bits[v] = 0;
#pragma unroll
      for (int p = 0; p < kStretch; ++p) {
        if (test(x.pixel[p].of[v], strange)) bits[v] |= 1U << p;
      }
    }
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
      std::uint32_t bits[kVector];
      test_item(x, test, bits, strange);
      const std::uint32_t kept = left < 8 ? (1U << left) - 1 : 0xFF;
      const std::uint32_t channel = vector * kVector;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        if (tiles.in_bytes()) {
          mask[(channel + v) * tiles.groups + vector * ChannelTiles::kPad + group] =
              static_cast<std::uint8_t>(bits[v]);
        } else {
          or_code(words, static_cast<int>((channel + v) * tiles.pixels + group * 8),
                  bits[v] & kept);
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
