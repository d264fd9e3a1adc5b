// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/blocks/side_by_side.cuh"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/elements/fast_divide.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/layout.h"

/// For element-wise kernels on tensors whose channels lie side by side, pixel after pixel, where
/// neighbours in logical order lie far apart. A block of threads takes tiles: some channels and
/// pixels of a sample. A thread takes items: eight pixels, which are neighbours in logical order,
/// of as many channels as 16 bytes hold. Threads that access memory together take neighbouring
/// channels.
namespace cinch::codecs::cuda {

struct ChannelTiles {
  std::uint32_t count = 0;     ///< of tiles; 0: the layout is none of these
  std::uint32_t pixels = 0;    ///< of a channel
  std::uint32_t channels = 0;  ///< of a sample
  std::uint32_t vector = 1;    ///< channels that 16 bytes hold
  std::uint32_t vectors = 0;   ///< of a pixel's channels
  std::uint32_t width = 0;     ///< of a tile but perhaps the last one, in vectors
  std::uint32_t groups = 0;    ///< of eight pixels, of a tile but perhaps the last one
  std::uint32_t threads = 0;   ///< of a block
  std::int64_t pixel_stride = 0;
  std::int64_t sample_stride = 0;
  FastDivide by_width, by_groups, by_slabs, by_parts;

  /// @param memory the elements @param element size of one
  /// @param whole_bytes a tile's elements fill whole bytes of a mask, and its channels no more than
  /// kMaskBytes
  ChannelTiles(const PlaneLayout& l, const void* memory, std::size_t element,
               bool whole_bytes) noexcept {
    if (l.is_contiguous() || l.planes() == 0) return;
    PlaneLayout channel = with_outer_planes(l);
    std::int64_t all = l.extent[0];
    if (all > 1 && l.stride[0] == 1 && channel.inner == 1) {
      // Planes are samples.
      channel.extent[0] = 1;
    } else if (l.inner_stride == 1) {
      channel = l;
      all = l.inner;
    } else {
      return;
    }
    const std::int64_t samples = channel.outer;
    sample_stride = channel.outer_stride;
    const std::int64_t size = channel.plane_size();
    vector = static_cast<std::uint32_t>(16 / element);
    pixel_stride = pixel_stride_of(channel);
    if (pixel_stride <= 0 || pixel_stride % vector != 0 || all % vector != 0 ||
        (samples > 1 && sample_stride % vector != 0) || !is_vector_aligned(memory) ||
        size > kMostPixels || all > kMostChannels ||
        (whole_bytes && size % 8 != 0 && all % 8 != 0)) {
      return;
    }
    pixels = static_cast<std::uint32_t>(size);
    channels = static_cast<std::uint32_t>(all);
    vectors = channels / vector;
    choose(samples, whole_bytes);
  }

  /// Whether each channel's pixels fill whole bytes of a mask.
  CINCH_HD bool in_bytes() const noexcept { return pixels % 8 == 0; }

  /// Bytes of a tile's mask in shared memory. A vector's channels begin `kPad` bytes further on
  /// than the last one's end, so that threads use different banks, where channels are whole bytes.
  std::size_t mask_bytes() const noexcept {
    const auto tile_channels = static_cast<std::size_t>(width) * vector;
    if (in_bytes()) return tile_channels * groups + width * kPad;
    return tile_channels * pixels / 8 + 4;
  }

  static constexpr unsigned kPad = 4;
  static constexpr unsigned kMostGroups = 32;  ///< as a sector of a mask has bytes
  static constexpr std::size_t kMaskBytes = std::size_t{46} << 10;

 private:
  static constexpr std::int64_t kMostPixels = std::int64_t{1} << 22;
  static constexpr std::int64_t kMostChannels = std::int64_t{1} << 22;
  static constexpr std::uint32_t kWidth = 8;  // 128 bytes

  void choose(std::int64_t samples, bool whole_bytes) noexcept {
    const std::uint32_t all = (pixels + 7) / 8;
    const std::uint32_t wanted_parts = (all + kMostGroups - 1) / kMostGroups;
    const std::uint32_t parts = whole_bytes && !in_bytes() ? 1 : wanted_parts;
    groups = (all + parts - 1) / parts;
    // Whole sectors, and whole bytes whatever the number of pixels.
    const auto step = std::max(2U, 8 / vector);
    const std::uint32_t few = (vectors + kWidth - 1) / kWidth;
    width = ((vectors + few - 1) / few + step - 1) / step * step;
    while (whole_bytes && width > step && mask_bytes() > kMaskBytes) width -= step;
    if (whole_bytes && mask_bytes() > kMaskBytes) return;
    threads = std::min((width * groups + kWarp - 1) / kWarp * kWarp, kRunThreads);
    const std::uint32_t slabs = (vectors + width - 1) / width;
    const std::int64_t tiles = samples * slabs * parts;
    if (tiles > kMaxBlocks) return;
    by_width = FastDivide(width);
    by_groups = FastDivide(groups);
    by_slabs = FastDivide(slabs);
    by_parts = FastDivide(parts);
    count = static_cast<std::uint32_t>(tiles);
  }
};

/// A tile. Neighbouring tiles are of neighbouring channels.
template <int kVector>
struct ChannelTile {
  std::int64_t offset;    ///< of its first element in memory
  std::int64_t logical;   ///< its first element in logical order
  std::uint32_t pixel;    ///< its first one
  std::uint32_t pixels;   ///< that are there
  std::uint32_t vectors;  ///< that are there

  __device__ __forceinline__ ChannelTile(const ChannelTiles& tiles, std::uint32_t index) {
    std::uint32_t slab = index;
    std::uint32_t part = tiles.by_slabs.split(slab);
    const std::uint32_t sample = tiles.by_parts.split(part);
    const std::uint32_t vector = slab * tiles.width;
    pixel = part * tiles.groups * 8;
    pixels = tiles.pixels - pixel;
    if (pixels > tiles.groups * 8) pixels = tiles.groups * 8;
    vectors = tiles.vectors - vector;
    if (vectors > tiles.width) vectors = tiles.width;
    offset =
        sample * tiles.sample_stride + pixel * tiles.pixel_stride + std::int64_t{vector} * kVector;
    logical = (std::int64_t{sample} * tiles.channels + vector * kVector) * tiles.pixels + pixel;
  }

  /// Calls take(vector, group) for each of the thread's items. A tile may have fewer groups than
  /// others where a channel ends, and its last one fewer than eight pixels.
  template <typename Take>
  __device__ __forceinline__ void for_each_item(const ChannelTiles& tiles, const Take& take) const {
    const std::uint32_t items = (pixels + 7) / 8 * tiles.width;
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x; i < items; i += blockDim.x) {
      std::uint32_t vector = i;
      const std::uint32_t group = tiles.by_width.split(vector);
      if (vector < vectors) take(vector, group);
    }
  }

  /// Memory offset of an item's first element.
  __device__ __forceinline__ std::int64_t offset_of(const ChannelTiles& tiles, std::uint32_t vector,
                                                    std::uint32_t group) const {
    return offset + vector * kVector + group * 8 * tiles.pixel_stride;
  }
};

/// The bit patterns of an item: of each pixel a vector of channels.
template <typename T>
struct ItemPatterns {
  static constexpr int kVector = 16 / sizeof(T);
  union Pixel {
    T of[kVector];
    std::uint32_t word[4];
  };
  Pixel pixel[kStretch];

  /// Loads the first `left` pixels; the others are the first one again. All loads begin before the
  /// first one ends.
  __device__ __forceinline__ void load(const T* from, std::int64_t stride, std::uint32_t left) {
#pragma unroll
    for (std::uint32_t p = 0; p < kStretch; ++p) {
      const uint4 v = *reinterpret_cast<const uint4*>(p < left ? from + p * stride : from);
      pixel[p].word[0] = v.x;
      pixel[p].word[1] = v.y;
      pixel[p].word[2] = v.z;
      pixel[p].word[3] = v.w;
    }
  }

  __device__ __forceinline__ void store(T* to, std::int64_t stride, std::uint32_t left) const {
#pragma unroll
    for (std::uint32_t p = 0; p < kStretch; ++p) {
      if (p >= left) break;
      const auto& w = pixel[p].word;
      store_vector(to + p * stride, uint4{w[0], w[1], w[2], w[3]});
    }
  }
};

}  // namespace cinch::codecs::cuda
