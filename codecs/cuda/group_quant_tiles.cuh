// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>

#include "codecs/cuda/group_quant_decode.cuh"
#include "codecs/cuda/group_quant_encode.cuh"

/// group_quant for channels-last samples: a block of threads takes some channels of a sample, which
/// are whole groups unless they are the last ones, and transposes them through shared memory.
namespace cinch::codecs::cuda {

/// Tiles of channels.
struct GroupTiles {
  SideBySide layout;
  std::int32_t channels;  ///< of a sample
  std::int32_t width;  ///< channels of a tile, but perhaps the last one; 0: there can be no tiles
  std::int32_t run;    ///< elements that can be accessed at once wherever a channel begins
  std::int64_t sample_stride;  ///< in global memory, in elements
  std::uint32_t stretches;  ///< of a tile
  FastDivide by_pixels;
  FastDivide by_sample;  ///< tiles of a sample
  std::uint32_t count;
  std::size_t shared_bytes;

  /// @param memory the elements @param element size of one
  /// @param most shared memory that a block of threads can have
  GroupTiles(const GroupJob& job, const PlaneLayout& l, const void* memory, std::size_t element,
             std::size_t most) noexcept
      : layout(pixel_stride_of(channel_of(l)), l.extent[1] * l.extent[2], 1, element, false),
        channels(static_cast<std::int32_t>(l.extent[0])),
        width(0),
        sample_stride(l.inner == 1 ? l.outer_stride : l.inner_stride) {
    const std::int64_t pixels = l.extent[1] * l.extent[2];
    const auto vector = static_cast<std::int64_t>(16 / element);
    const bool side_by_side = !job.order.contiguous && (l.inner == 1 || l.outer == 1) &&
                              l.stride[0] == 1 && layout.pixel_stride > 0 &&
                              layout.pixel_stride % vector == 0 && sample_stride % vector == 0 &&
                              is_vector_aligned(memory);
    if (!side_by_side || channels % vector != 0 || job.size % kStretch != 0 ||
        pixels > (std::int64_t{1} << 20) || !job.fits_warp()) {
      return;
    }
    // Whole groups and whole vectors.
    const std::int64_t least =
        std::max<std::int64_t>(job.group / std::gcd<std::int64_t>(job.group, pixels), vector);
    choose_width(least, 2 * vector, element, most);
    if (width == 0) return;
    for (run = 8; pixels % run != 0;) run /= 2;
    stretches = static_cast<std::uint32_t>(width * pixels / kStretch);
    const std::int64_t tiles = (channels + width - 1) / width;
    by_pixels = FastDivide(pixels);
    by_sample = FastDivide(tiles);
    count = static_cast<std::uint32_t>(job.planes * tiles);
  }

  /// Where a stretch lies in shared memory, in elements. Eight channels are `by_pixels` stretches.
  __device__ __forceinline__ std::uint32_t place(std::uint32_t stretch) const {
    return stretch * kStretch + by_pixels.quotient(stretch) * layout.pad;
  }

 private:
  /// The layout of the pixels of one channel.
  static PlaneLayout channel_of(PlaneLayout l) noexcept {
    l.extent[0] = 1;
    return l;
  }

  /// Doubles the tile's width, from `least` on, while three blocks of threads have room in a
  /// multiprocessor. For up to `wide` channels room for two is enough, and for `least` room for
  /// one.
  void choose_width(std::int64_t least, std::int64_t wide, std::size_t element,
                    std::size_t most) noexcept {
    for (std::int64_t w = least; w == least || w / 2 < channels; w *= 2) {
      const SideBySide tile(layout.pixel_stride, layout.size, static_cast<std::int32_t>(w), element,
                            true);
      const auto bytes =
          static_cast<std::size_t>(tile.elements(std::min<std::int64_t>(w, channels))) * element;
      const std::size_t limit = w == least ? most : w <= wide ? most / 2 : kRoom;
      if (bytes > std::min(limit, most)) break;
      layout = tile;
      width = static_cast<std::int32_t>(w);
      shared_bytes = (bytes + 15) / 16 * 16;
    }
  }

  static constexpr std::size_t kRoom = std::size_t{72} << 10;  ///< a third of a multiprocessor's
};

/// A tile of a sample.
struct GroupTile {
  std::int64_t plane;
  std::int64_t offset;      ///< of its elements in memory
  std::int64_t first;       ///< its first stretch, in its plane
  std::uint32_t channels;   ///< that are there
  std::uint32_t stretches;  ///< that are there
  PlaneCodes codes;

  __device__ __forceinline__ GroupTile(const GroupJob& job, const GroupTiles& tiles,
                                       std::uint32_t index, const std::byte* encoded,
                                       const std::int64_t* offsets) {
    std::uint32_t part = index;
    plane = tiles.by_sample.split(part);
    const std::int64_t channel = std::int64_t{part} * tiles.width;
    offset = plane * tiles.sample_stride + channel;
    first = std::int64_t{part} * tiles.stretches;
    const std::int64_t left = tiles.channels - channel;
    channels = static_cast<std::uint32_t>(left < tiles.width ? left : tiles.width);
    stretches = channels * tiles.layout.size / kStretch;
    codes = plane_codes(job, encoded, offsets, plane);
  }

  /// The place of a lane's stretches, the first of which is the tile's `i`-th.
  template <bool kUsual>
  __device__ __forceinline__ GroupPlace place_of(const GroupJob& job,
                                                 const GroupLanes<kUsual>& lanes,
                                                 std::uint32_t i) const {
    GroupPlace place;
    place.first = i < stretches;
    place.second = i + lanes.count() < stretches;
    place.stretch = plane * (job.size / kStretch) + first + i;
    place.group = plane * job.groups + lanes.group_of(first + i);
    place.codes = codes.at + (first + i) * codes.bits;
    place.bits = codes.bits;
    return place;
  }
};

/// Calls f with `run` as a std::integral_constant.
template <typename F>
__device__ __forceinline__ void with_tile_run(std::int32_t run, const F& f) {
  if (run == 8) return f(std::integral_constant<int, 8>());
  if (run == 4) return f(std::integral_constant<int, 4>());
  if (run == 2) return f(std::integral_constant<int, 2>());
  f(std::integral_constant<int, 1>());
}

template <ElementType type, int kBits>
__device__ __forceinline__ void encode_tile_groups(const GroupJob& job, const GroupTiles& tiles,
                                                   const GroupTile& tile,
                                                   const typename Element<type>::Bits* x,
                                                   std::byte* out, Result* result) {
  const GroupLanes<(kBits > 0)> lanes(job);
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < tile.stretches;
       begin += 2 * kGroupThreads) {
    const std::uint32_t i = begin + lanes.first();
    const GroupPlace place = tile.place_of(job, lanes, i);
    std::uint32_t a[kStretchWords<type>] = {};
    std::uint32_t b[kStretchWords<type>] = {};
    if (place.first) load_run<type, kStretch>(x + tiles.place(i), a);
    if (place.second) load_run<type, kStretch>(x + tiles.place(i + lanes.count()), b);
    encode_groups<type, kBits, false>(job, lanes, place, a, b, out, result);
  }
}

/// A block for each tile from `first_tile` on: with a loop over tiles it would spill.
template <ElementType type>
__global__ void __launch_bounds__(kGroupThreads, 3)
    group_quant_encode_tiles(const GroupJob job, const GroupTiles tiles, std::uint32_t first_tile,
                             const std::int64_t* offsets, const void* source, std::byte* out,
                             Result* result) {
  using Bits = typename Element<type>::Bits;
  CINCH_DYNAMIC_SHARED(Bits, x);
  store_group_head(job, out, 0, result);
  const GroupTile tile(job, tiles, first_tile + blockIdx.x, out, offsets);
  with_tile_run(tiles.run, [&](auto run) {
    load_side_by_side<type, run.value>(
        tiles.layout, tile.channels, static_cast<const Bits*>(source) + tile.offset,
        [](std::uint32_t channel) { return std::int64_t{channel}; }, x);
  });
  __syncthreads();
  const int bits = job.usual_bits();
  if (bits == 2) return encode_tile_groups<type, 2>(job, tiles, tile, x, out, result);
  if (bits == 3) return encode_tile_groups<type, 3>(job, tiles, tile, x, out, result);
  if (bits == 4) return encode_tile_groups<type, 4>(job, tiles, tile, x, out, result);
  encode_tile_groups<type, 0>(job, tiles, tile, x, out, result);
}

template <ElementType type, bool subtractive, int kBits>
__device__ __forceinline__ void decode_tile_groups(const GroupJob& job, const GroupTiles& tiles,
                                                   const GroupTile& tile, const std::byte* in,
                                                   typename Element<type>::Bits* x) {
  const GroupLanes<(kBits > 0)> lanes(job);
  const RoundKeys keys(subtractive ? load_key(in) : RandomKey());
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < tile.stretches;
       begin += 2 * kGroupThreads) {
    std::uint32_t i = begin + lanes.first();
    const GroupPlace place = tile.place_of(job, lanes, i);
    if (!place.first) continue;
    const int bits = kBits > 0 ? kBits : place.bits;
    const std::uint32_t range =
        *reinterpret_cast<const std::uint32_t*>(in + job.ranges_at + 4 * place.group);
    std::int64_t at = place.codes;
    std::int64_t stretch = place.stretch;
    // With any number of bits both halves at once take more registers than there are.
#pragma unroll kBits > 0 ? 2 : 1
    for (int half = 0; half < 2; ++half) {
      const bool wanted = half == 0 || place.second;
      if (wanted && (kBits > 0 || !job.mixed || at + bits <= job.end)) {
        std::uint32_t words[kStretchWords<type>];
        restore_group_stretch<type, subtractive>(load_group_codes<kBits>(in + at, bits), bits,
                                                 range, stretch, keys, words);
        store_run<type, kStretch>(x + tiles.place(i), words);
      }
      i += lanes.count();
      stretch += lanes.count();
      at += lanes.count() * static_cast<std::uint32_t>(bits);
    }
  }
}

/// Any number of blocks of threads will do.
template <ElementType type, bool subtractive>
__global__ void __launch_bounds__(kGroupThreads, 3)
    group_quant_decode_tiles(const GroupJob job, const GroupTiles tiles,
                             const std::int64_t* offsets, const std::byte* in, void* target) {
  using Bits = typename Element<type>::Bits;
  CINCH_DYNAMIC_SHARED(Bits, x);
  for (std::uint32_t index = blockIdx.x; index < tiles.count; index += gridDim.x) {
    const GroupTile tile(job, tiles, index, in, offsets);
    const int bits = job.usual_bits();
    if (bits == 2) {
      decode_tile_groups<type, subtractive, 2>(job, tiles, tile, in, x);
    } else if (bits == 3) {
      decode_tile_groups<type, subtractive, 3>(job, tiles, tile, in, x);
    } else if (bits == 4) {
      decode_tile_groups<type, subtractive, 4>(job, tiles, tile, in, x);
    } else {
      decode_tile_groups<type, subtractive, 0>(job, tiles, tile, in, x);
    }
    __syncthreads();
    with_tile_run(tiles.run, [&](auto run) {
      store_side_by_side<type, run.value>(
          tiles.layout, tile.channels, x,
          [](std::uint32_t channel) { return std::int64_t{channel}; },
          static_cast<Bits*>(target) + tile.offset);
    });
    if (gridDim.x < tiles.count) __syncthreads();  // the next tile takes this one's place
  }
}

}  // namespace cinch::codecs::cuda
