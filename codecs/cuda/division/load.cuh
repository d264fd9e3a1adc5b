// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "codecs/cuda/division/tile.cuh"

/// Loads tiles of planes to shared memory, whatever their layout.
namespace cinch::codecs::cuda {

/// Elements of whose number's multiples plane `v` of a vector begins at one, within its vector.
/// Planes are a multiple of `run` long. What lies at a multiple of eight counts as such.
constexpr int alignment_of_plane(int v, int run) {
  const int aligned = v == 0 ? kStretch : (v & -v) * run;
  return aligned < kStretch ? aligned : kStretch;
}

/// Stores eight pixels of plane `kPlane` of a vector.
/// @param to a multiple of alignment_of_plane elements; where that is less than a word, an odd one
template <ElementType type, int kRun, int kPlane>
__device__ __forceinline__ void store_eight(const EightPixels<type>& pixels,
                                            typename Element<type>::Bits* to) {
  constexpr int kAlignment = alignment_of_plane(kPlane, kRun);
  if constexpr (kAlignment >= kPerWord<type>) {
    std::uint32_t words[kStretchWords<type>];
    pixels.plane(kPlane, words);
#pragma unroll
    for (int i = 0; i < kStretch; i += kAlignment) {
      store_run<type, kAlignment>(to + i, words + i / kPerWord<type>);
    }
  } else {
    // The plane's number is odd: its elements are upper halves.
    constexpr int kWord = kPlane / 2;
    to[0] = static_cast<std::uint16_t>(pixels.of_pixel[0][kWord] >> 16);
#pragma unroll
    for (int i = 1; i < kStretch - 1; i += 2) {
      *reinterpret_cast<std::uint32_t*>(to + i) =
          permute_bytes(pixels.of_pixel[i][kWord], pixels.of_pixel[i + 1][kWord], 0x7632);
    }
    to[7] = static_cast<std::uint16_t>(pixels.of_pixel[7][kWord] >> 16);
  }
}

/// The same of all planes of a vector.
template <ElementType type, int kRun, int... plane>
__device__ __forceinline__ void store_planes(const EightPixels<type>& pixels, std::uint32_t size,
                                             typename Element<type>::Bits* to,
                                             std::integer_sequence<int, plane...> /*planes*/) {
  (store_eight<type, kRun, plane>(pixels, to + plane * size), ...);
}

/// Loads eight pixels of a vector of planes. @param to of the first plane
template <ElementType type, int kRun>
__device__ __forceinline__ void load_eight(const SideBySide& tile,
                                           const typename Element<type>::Bits* from,
                                           typename Element<type>::Bits* to) {
  EightPixels<type> pixels;
#pragma unroll
  for (int p = 0; p < kStretch; ++p) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    pixels.of_pixel[p][0] = v.x;
    pixels.of_pixel[p][1] = v.y;
    pixels.of_pixel[p][2] = v.z;
    pixels.of_pixel[p][3] = v.w;
    from += tile.pixel_stride;
  }
  store_planes<type, kRun>(pixels, tile.size, to,
                           std::make_integer_sequence<int, Element<type>::kPerVector>());
}

/// Loads the last pixels of a vector of planes, one after another.
template <ElementType type>
__device__ __forceinline__ void load_last(const SideBySide& tile, std::uint32_t pixels,
                                          const typename Element<type>::Bits* from,
                                          typename Element<type>::Bits* to) {
#pragma unroll 1
  for (std::uint32_t p = 0; p < pixels; ++p) {
    Vector<type> vector;
    vector.load(from);
#pragma unroll
    for (int v = 0; v < Element<type>::kPerVector; ++v) to[v * tile.size] = vector.bits[v];
    from += tile.pixel_stride;
    ++to;
  }
}

/// Loads planes that lie side by side. All threads of the block must call it.
/// @param offsets of the planes in `source`, whose vectors are aligned
template <ElementType type, int kRun>
__device__ __forceinline__ void load_tile_vectors(const SideBySide& tile, std::uint32_t planes,
                                                  const typename Element<type>::Bits* source,
                                                  const std::int64_t* offsets,
                                                  typename Element<type>::Bits* x) {
  for_each_piece<type>(tile, planes, [&](std::uint32_t plane, std::uint32_t pixel) {
    const auto* const from = source + offsets[plane] + pixel * tile.pixel_stride;
    auto* const to = x + tile.begin(plane) + pixel;
    const std::uint32_t left = tile.size - pixel;
    if (left >= kStretch) {
      load_eight<type, kRun>(tile, from, to);
    } else {
      load_last<type>(tile, left, from, to);
    }
  });
}

/// Copies vectors to shared memory. All threads of the block must call it.
__device__ __forceinline__ void load_vectors(const uint4* from, std::uint32_t count, uint4* to) {
  constexpr std::uint32_t kAtOnce = 4;
  std::uint32_t i = threadIdx.x;
  from += i;
  to += i;
  uint4 loaded[kAtOnce];
#pragma unroll 1
  for (; i + (kAtOnce - 1) * kDivisionThreads < count; i += kAtOnce * kDivisionThreads) {
#pragma unroll
    for (std::uint32_t v = 0; v < kAtOnce; ++v) loaded[v] = from[v * kDivisionThreads];
#pragma unroll
    for (std::uint32_t v = 0; v < kAtOnce; ++v) {
      store_shared_vector(to + v * kDivisionThreads, loaded[v]);
    }
    from += kAtOnce * kDivisionThreads;
    to += kAtOnce * kDivisionThreads;
  }
#pragma unroll
  for (std::uint32_t v = 0; v < kAtOnce - 1; ++v) {
    if (i + v * kDivisionThreads < count) to[v * kDivisionThreads] = from[v * kDivisionThreads];
  }
}

/// Loads the tile's planes, whatever the layout. All threads of the block must call it.
/// @param source of the tile if planes are contiguous, otherwise of all
/// @param offsets of the planes in `source`; not read if they are contiguous
template <ElementType type, int kRun>
__device__ __forceinline__ void load_tile(const DivisionJob& job, const DivisionTile& tile,
                                          const typename Element<type>::Bits* source,
                                          std::int32_t planes, const std::int64_t* offsets,
                                          typename Element<type>::Bits* x) {
  constexpr int kVector = Element<type>::kPerVector;
  if (job.contiguous) {
    const auto count = static_cast<std::uint32_t>(planes * job.size);
    std::uint32_t done = 0;
    if (job.vectors) {
      load_vectors(reinterpret_cast<const uint4*>(source), count / kVector,
                   reinterpret_cast<uint4*>(x));
      done = count / kVector * kVector;
    }
    for (std::uint32_t i = done + threadIdx.x; i < count; i += kDivisionThreads) x[i] = source[i];
    return;
  }
  if (tile.has_vectors(job)) {
    const auto count = static_cast<std::uint32_t>(planes);
    if constexpr (kRun < kPerWord<type>) {
      // Blocks of odd widths may make up planes of an even size, which all begin at a word.
      if (tile.layout.size % 2 == 0) {
        return load_tile_vectors<type, 2>(tile.layout, count, source, offsets, x);
      }
    }
    return load_tile_vectors<type, kRun>(tile.layout, count, source, offsets, x);
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
    x[tile.layout.begin(p) + e] = source[offsets[p] + job.offset_in_plane(e)];
  }
}

}  // namespace cinch::codecs::cuda
