// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>

#include "codecs/cuda/group_quant/decode.cuh"
#include "codecs/cuda/group_quant/encode.cuh"
#include "codecs/cuda/group_quant/samples.cuh"

/// group_quant for channels-last samples: a block of threads takes some channels of a sample, which
/// are whole groups unless they are the last ones, and transposes them through shared memory. Of
/// channels that are whole groups themselves it takes a window: some of their pixels.
namespace cinch::codecs::cuda {

/// Threads of a block that takes a tile, at most, and such blocks of a multiprocessor: as many as
/// have the registers for it. Tiles of 56, 28, 14 or 7 pixels squared have work for whole turns.
inline constexpr unsigned kTileThreads = 448;
inline constexpr unsigned kTileBlocks = 2;

/// Tiles of channels.
struct GroupTiles {
  SideBySide layout;      ///< of a window
  std::int32_t channels;  ///< of a sample
  std::int32_t width;  ///< channels of a tile, but perhaps the last one; 0: there can be no tiles
  std::int32_t run;    ///< elements that can be accessed at once wherever a channel begins
  std::int64_t sample_stride;       ///< in global memory, in elements
  std::uint32_t stretches;          ///< of a tile
  std::uint32_t channel_stretches;  ///< of a tile's channels, with those outside of the window
  std::uint32_t window_stretches;   ///< of a channel, if windows aren't whole channels
  std::uint32_t skipped;            ///< of a channel's stretches, those outside of a window
  FastDivide by_pixels;             ///< of a window
  FastDivide by_window_stretches;
  FastDivide by_windows;  ///< of a channel
  FastDivide by_parts;    ///< tiles across a sample's channels
  std::uint32_t count;
  std::size_t shared_bytes;
  unsigned threads;  ///< of a block

  /// @param element size of one
  /// @param most shared memory that a block of threads can have
  GroupTiles(const GroupJob& job, const SamplesLast& samples, std::size_t element,
             std::size_t most) noexcept
      : layout(samples.pixel_stride, samples.pixels, 1, element, false),
        channels(static_cast<std::int32_t>(samples.channels)),
        width(0),
        sample_stride(samples.sample_stride) {
    const std::int64_t pixels = samples.pixels;
    const auto vector = static_cast<std::int64_t>(16 / element);
    if (!samples.vectors || job.size % kStretch != 0 || pixels > (std::int64_t{1} << 20) ||
        !job.fits_warp()) {
      return;
    }
    const std::int64_t window = window_of(pixels, job.group, element);
    layout.size = static_cast<std::uint32_t>(window);
    // Whole groups and whole vectors.
    const std::int64_t least =
        std::max<std::int64_t>(job.group / std::gcd<std::int64_t>(job.group, window), vector);
    // Padding takes less than an eighth.
    const std::size_t room = window < pixels ? kWindowBytes / 8 * 9 : kRoom;
    choose_width(least, 2 * vector, element, room, most);
    if (width == 0) return;
    const std::int64_t parts = (channels + width - 1) / width;
    const std::int64_t windows = pixels / window;
    if (job.planes * parts * windows > kMaxTiles) {
      width = 0;
      return;
    }
    for (run = 8; window % run != 0;) run /= 2;
    stretches = static_cast<std::uint32_t>(width * window / kStretch);
    channel_stretches = static_cast<std::uint32_t>(width * pixels / kStretch);
    window_stretches = static_cast<std::uint32_t>(window / kStretch);
    skipped = static_cast<std::uint32_t>((pixels - window) / kStretch);
    by_pixels = FastDivide(window);
    by_window_stretches = FastDivide(std::max<std::int64_t>(window_stretches, 1));
    by_windows = FastDivide(windows);
    by_parts = FastDivide(parts);
    count = static_cast<std::uint32_t>(job.planes * parts * windows);
    const std::size_t blocks = (most + kReserved) / (shared_bytes + kReserved);
    threads = blocks >= 7 ? kTileThreads / 7 * 2 : blocks >= 4 ? kTileThreads / 2 : kTileThreads;
  }

  /// Stretches of the tile's channels outside of the window, before the window's `stretch`-th.
  __device__ __forceinline__ std::uint32_t skipped_before(std::uint32_t stretch) const {
    return by_window_stretches.quotient(stretch) * skipped;
  }

  /// Where a stretch lies in shared memory, in elements. Eight channels are `by_pixels` stretches.
  __device__ __forceinline__ std::uint32_t place(std::uint32_t stretch) const {
    return stretch * kStretch + by_pixels.quotient(stretch) * layout.pad;
  }

 private:
  /// Pixels of a window: all, or whole groups that are enough for a tile of a pixel's channels.
  std::int64_t window_of(std::int64_t pixels, std::int64_t group,
                         std::size_t element) const noexcept {
    if (pixels % group != 0) return pixels;
    const std::int64_t pixel =
        std::min<std::int64_t>(channels * static_cast<std::int64_t>(element), kWindowLine);
    std::int64_t window = group;
    while (2 * window * pixel <= kWindowBytes && pixels % (2 * window) == 0) window *= 2;
    return window;
  }

  /// Doubles the tile's width, from `least` on, up to `room` bytes. For up to `wide` channels half
  /// of a multiprocessor's shared memory is enough, and for `least` all of it.
  void choose_width(std::int64_t least, std::int64_t wide, std::size_t element, std::size_t room,
                    std::size_t most) noexcept {
    for (std::int64_t w = least; w == least || w / 2 < channels; w *= 2) {
      const SideBySide tile(layout.pixel_stride, layout.size, static_cast<std::int32_t>(w), element,
                            true);
      const auto bytes =
          static_cast<std::size_t>(tile.elements(std::min<std::int64_t>(w, channels))) * element;
      const std::size_t limit = w == least ? most : w <= wide ? most / 2 : room;
      if (bytes > std::min(limit, most)) break;
      layout = tile;
      width = static_cast<std::int32_t>(w);
      shared_bytes = (bytes + 15) / 16 * 16;
    }
  }

  static constexpr std::int64_t kMaxTiles = std::int64_t{1} << 30;  ///< for FastDivide
  static constexpr std::size_t kReserved = 1 << 10;  ///< shared memory of a block besides its own
  static constexpr std::size_t kRoom = std::size_t{55} << 10;  ///< a fourth of a multiprocessor's
  static constexpr std::int64_t kWindowBytes = std::int64_t{16} << 10;
  static constexpr std::int64_t kWindowLine = 64;  ///< bytes of a pixel in a window, at least
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
    std::uint32_t window = tiles.by_parts.split(part);
    plane = tiles.by_windows.split(window);
    const std::int64_t channel = std::int64_t{part} * tiles.width;
    offset = plane * tiles.sample_stride + channel +
             std::int64_t{window} * tiles.layout.size * tiles.layout.pixel_stride;
    first = std::int64_t{part} * tiles.channel_stretches + window * tiles.window_stretches;
    const std::int64_t left = tiles.channels - channel;
    channels = static_cast<std::uint32_t>(left < tiles.width ? left : tiles.width);
    stretches = channels * tiles.layout.size / kStretch;
    codes = plane_codes(job, encoded, offsets, plane);
  }

  /// The place of a lane's stretches, the first of which is the tile's `i`-th.
  template <unsigned kShift>
  __device__ __forceinline__ GroupPlace place_of(const GroupJob& job, const GroupTiles& tiles,
                                                 const GroupLanes<kShift>& lanes,
                                                 std::uint32_t i) const {
    // Both are of one group, hence of one channel if there is another window.
    const std::int64_t within = first + i + tiles.skipped_before(i);
    GroupPlace place;
    place.first = i < stretches;
    place.second = i + lanes.count() < stretches;
    place.stretch = plane * (job.size / kStretch) + within;
    place.group = plane * job.groups + lanes.group_of(within);
    place.codes = codes.at + within * codes.bits;
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
  const GroupLanes<usual_shift(kBits)> lanes(job);
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < tile.stretches;
       begin += 2 * blockDim.x) {
    const std::uint32_t i = begin + lanes.first();
    const GroupPlace place = tile.place_of(job, tiles, lanes, i);
    std::uint32_t a[kStretchWords<type>] = {};
    std::uint32_t b[kStretchWords<type>] = {};
    if (place.first) load_run<type, kStretch>(x + tiles.place(i), a);
    if (place.second) load_run<type, kStretch>(x + tiles.place(i + lanes.count()), b);
    encode_groups<type, kBits, false>(job, lanes, place, a, b, out, result);
  }
}

/// A block for each tile from `first_tile` on: with a loop over tiles it would spill.
/// @param kBits job.usual_bits()
template <ElementType type, int kBits>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    group_quant_encode_tiles(const GroupJob job, const GroupTiles tiles, std::uint32_t first_tile,
                             const std::int64_t* offsets, const void* source, std::byte* out,
                             Result* result) {
  using Bits = typename Element<type>::Bits;
  CINCH_DYNAMIC_SHARED(Bits, x);
  store_group_head(job, out, 0, result);
  const std::uint32_t index = first_tile + blockIdx.x;
  with_tile_run(tiles.run, [&](auto run) {
    const GroupTile tile(job, tiles, index, out, offsets);
    load_side_by_side<type, run.value>(
        tiles.layout, tile.channels, static_cast<const Bits*>(source) + tile.offset,
        [](std::uint32_t channel) { return std::int64_t{channel}; }, x);
  });
  __syncthreads();
  // Found again, as registers that held it meanwhile would be too many.
  const GroupTile tile(job, tiles, kept(index), out, offsets);
  encode_tile_groups<type, kBits>(job, tiles, tile, x, out, result);
}

template <ElementType type, bool subtractive, int kBits>
__device__ __forceinline__ void decode_tile_groups(const GroupJob& job, const GroupTiles& tiles,
                                                   const GroupTile& tile, const std::byte* in,
                                                   typename Element<type>::Bits* x) {
  const GroupLanes<usual_shift(kBits)> lanes(job);
  const RoundKeys keys(subtractive ? load_key(in) : RandomKey());
  for (std::uint32_t begin = threadIdx.x / kWarp * kPiece; begin < tile.stretches;
       begin += 2 * blockDim.x) {
    std::uint32_t i = begin + lanes.first();
    const GroupPlace place = tile.place_of(job, tiles, lanes, i);
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

/// Any number of blocks of threads will do. @param kBits job.usual_bits()
template <ElementType type, bool subtractive, int kBits>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    group_quant_decode_tiles(const GroupJob job, const GroupTiles tiles,
                             const std::int64_t* offsets, const std::byte* in, void* target) {
  using Bits = typename Element<type>::Bits;
  CINCH_DYNAMIC_SHARED(Bits, x);
  for (std::uint32_t index = blockIdx.x; index < tiles.count; index += gridDim.x) {
    const GroupTile tile(job, tiles, index, in, offsets);
    decode_tile_groups<type, subtractive, kBits>(job, tiles, tile, in, x);
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
