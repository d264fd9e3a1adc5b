// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "codecs/cuda/elements/pairs.cuh"
#include "codecs/cuda/elements/quantize.cuh"
#include "codecs/layout.h"

/// Planes whose elements lie side by side in global memory, pixel after pixel, as channels-last
/// tensors have them, and one after another in shared memory. A thread takes eight pixels of as
/// many planes as 16 bytes hold, and transposes them in its registers.
namespace cinch::codecs::cuda {

/// Distance of neighbouring pixels of a plane, in elements; 0 when pixels aren't equidistant.
inline std::int64_t pixel_stride_of(const PlaneLayout& layout) noexcept {
  std::int64_t stride = 0;  // of the innermost axis that has more than one coordinate
  std::int64_t next = 0;
  for (int axis = 2; axis >= 0; --axis) {
    if (layout.extent[axis] == 1) continue;
    if (stride == 0) stride = next = layout.stride[axis];
    if (layout.stride[axis] != next) return 0;
    next *= layout.extent[axis];
  }
  return stride;
}

/// Some planes in shared memory.
struct SideBySide {
  std::int64_t pixel_stride;  ///< in global memory
  std::uint32_t size;         ///< of a plane
  std::int32_t vectors;       ///< across the planes: a power of two
  std::int32_t shift;         ///< its logarithm
  /// Elements left out after each eight planes, so that threads that store vectors of neighbouring
  /// planes use different banks.
  std::uint32_t pad;

  SideBySide(std::int64_t stride, std::int64_t plane_size, std::int32_t planes, std::size_t element,
             bool padded) noexcept
      : pixel_stride(stride),
        size(static_cast<std::uint32_t>(plane_size)),
        vectors(planes / static_cast<std::int32_t>(16 / element)),
        shift(std::bit_width(static_cast<std::uint32_t>(vectors)) - 1),
        pad(padded ? static_cast<std::uint32_t>(128 / std::clamp(vectors, 1, 8) /
                                                static_cast<std::int32_t>(element))
                   : 0) {}

  /// Where a plane begins in shared memory, in elements.
  CINCH_HD std::uint32_t begin(std::uint32_t plane) const noexcept {
    return plane * size + (plane >> 3) * pad;
  }
  /// Elements of shared memory for so many planes.
  std::int64_t elements(std::int64_t planes) const noexcept {
    return planes * size + (planes + 7) / 8 * pad;
  }
};

/// Loads some elements that lie at a multiple of their number.
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

/// The words of eight pixels: of each pixel a vector of planes, of each plane a stretch.
template <ElementType type>
struct EightPixels {
  static constexpr int kVector = Element<type>::kPerVector;
  std::uint32_t of_pixel[8][4];

  /// The stretch of plane `v`.
  __device__ __forceinline__ void plane(int v, std::uint32_t (&words)[kStretchWords<type>]) const {
#pragma unroll
    for (int w = 0; w < kStretchWords<type>; ++w) {
      if constexpr (kPerWord<type> == 1) {
        words[w] = of_pixel[w][v];
      } else {
        words[w] = permute_bytes(of_pixel[2 * w][v / 2], of_pixel[2 * w + 1][v / 2],
                                 v % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
  }
};

/// Calls `visit` for this thread's pieces of a tile: eight pixels of a vector of planes, by the
/// first plane and the first pixel.
template <ElementType type, typename Visit>
__device__ __forceinline__ void for_each_piece(const SideBySide& tile, std::uint32_t planes,
                                               const Visit& visit) {
  const std::uint32_t items = (tile.size + 7) / 8 << tile.shift;
  for (std::uint32_t i = threadIdx.x; i < items; i += blockDim.x) {
    const std::uint32_t vector = i & static_cast<std::uint32_t>(tile.vectors - 1);
    const std::uint32_t plane = vector * Element<type>::kPerVector;
    if (plane < planes) visit(plane, (i >> tile.shift) * 8);
  }
}

/// Loads planes to shared memory. All threads of the block must call it.
/// @param kRun elements that can be stored at once wherever a plane begins: planes are a multiple
/// of this long
/// @param offset gives the offset of a plane in `source`, whose vectors are aligned
template <ElementType type, int kRun, typename Offset>
__device__ __forceinline__ void load_side_by_side(const SideBySide& tile, std::uint32_t planes,
                                                  const typename Element<type>::Bits* source,
                                                  const Offset& offset,
                                                  typename Element<type>::Bits* x) {
  constexpr int kVector = Element<type>::kPerVector;
  for_each_piece<type>(tile, planes, [&](std::uint32_t plane, std::uint32_t pixel) {
    const auto* from = source + offset(plane) + pixel * tile.pixel_stride;
    const std::uint32_t left = kRun == 8 ? 8 : tile.size - pixel;
    EightPixels<type> pixels;
#pragma unroll
    for (std::uint32_t p = 0; p < 8; ++p) {
      uint4 v = {0, 0, 0, 0};
      if (p < left) v = *reinterpret_cast<const uint4*>(from);
      pixels.of_pixel[p][0] = v.x;
      pixels.of_pixel[p][1] = v.y;
      pixels.of_pixel[p][2] = v.z;
      pixels.of_pixel[p][3] = v.w;
      from = kept(from + tile.pixel_stride);  // one address at a time is in a register
    }
    auto* to = x + tile.begin(plane) + pixel;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      std::uint32_t words[kStretchWords<type>];
      pixels.plane(v, words);
#pragma unroll
      for (int run = 0; run < 8; run += kRun) {
        // A single element may be the upper half of a word.
        const std::uint32_t half = words[run / kPerWord<type>] >> (16 * (run % kPerWord<type>));
        if (run == 0 || static_cast<std::uint32_t>(run) < left) {
          store_run<type, kRun>(to + run, kRun == 1 ? &half : words + run / kPerWord<type>);
        }
      }
      to += tile.size;  // a vector's planes are of one group of eight
    }
  });
}

/// Stores the first `count` of eight pixels of a vector of planes, to `to` and each `stride`
/// elements further. @param of_plane of each plane a stretch
template <ElementType type>
__device__ __forceinline__ void store_pixels(
    const std::uint32_t (&of_plane)[Element<type>::kPerVector][kStretchWords<type>],
    std::uint32_t count, typename Element<type>::Bits* to, std::int64_t stride) {
#pragma unroll
  for (std::uint32_t p = 0; p < 8; ++p) {
    if (p >= count) break;
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (kPerWord<type> == 1) {
        words[w] = of_plane[w][p];
      } else {
        words[w] = permute_bytes(of_plane[2 * w][p / 2], of_plane[2 * w + 1][p / 2],
                                 p % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
    store_vector(to, uint4{words[0], words[1], words[2], words[3]});
    to += stride;
  }
}

/// The reverse: stores planes from shared memory.
template <ElementType type, int kRun, typename Offset>
__device__ __forceinline__ void store_side_by_side(const SideBySide& tile, std::uint32_t planes,
                                                   const typename Element<type>::Bits* x,
                                                   const Offset& offset,
                                                   typename Element<type>::Bits* target) {
  constexpr int kVector = Element<type>::kPerVector;
  for_each_piece<type>(tile, planes, [&](std::uint32_t plane, std::uint32_t pixel) {
    const std::uint32_t left = kRun == 8 ? 8 : tile.size - pixel;
    const auto* from = x + tile.begin(plane) + pixel;
    std::uint32_t of_plane[kVector][kStretchWords<type>];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
#pragma unroll
      for (int run = 0; run < 8; run += kRun) {
        if (run > 0 && static_cast<std::uint32_t>(run) >= left) continue;
        std::uint32_t words[8];
        load_run<type, kRun>(from + run, words);
        std::uint32_t& word = of_plane[v][run / kPerWord<type>];
        if constexpr (kRun < kPerWord<type>) {
          word = run % kPerWord<type> == 0 ? words[0] : word | words[0] << 16;
        } else {
#pragma unroll
          for (int w = 0; w < kRun / kPerWord<type>; ++w) (&word)[w] = words[w];
        }
      }
      from += tile.size;
    }
    store_pixels<type>(of_plane, left, target + offset(plane) + pixel * tile.pixel_stride,
                       tile.pixel_stride);
  });
}

}  // namespace cinch::codecs::cuda
