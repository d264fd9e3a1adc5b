// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/channel_tiles.cuh"
#include "codecs/formats/lossless/window_index.h"

namespace cinch::codecs::cuda {

inline constexpr std::int32_t kNever = 0x7FFFFFFF;
/// Table entries that a block keeps in shared memory; longer tables stay in global memory.
inline constexpr std::int32_t kSharedEntries = 2048;

/// Arguments of the window_index kernels. Tables have an entry for each output d, then h, then w.
struct WindowJob {
  LogicalOrder order;
  std::int64_t elements;
  std::int64_t index_end;
  std::int32_t output[3];
  std::int32_t input[3];
  std::int32_t entries;
  FastDivide by_input_height, by_input_width;
  ChannelTiles tiles;

  /// @param memory the indices
  WindowJob(const Description& what, const void* memory) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        index_end(what.index_extent[0] * what.index_extent[1] * what.index_extent[2]),
        by_input_height(what.index_extent[1]),
        by_input_width(what.index_extent[2]),
        tiles(what.layout, memory, sizeof(std::int64_t), false) {
    // The tables are of channels' pixels.
    if (tiles.pixels != what.layout.plane_size()) tiles.count = 0;
    for (int axis = 0; axis < 3; ++axis) {
      output[axis] = static_cast<std::int32_t>(what.layout.extent[axis]);
      input[axis] = static_cast<std::int32_t>(what.index_extent[axis]);
    }
    entries = output[0] + output[1] + output[2];
  }

  /// Finds the table entries of the output element at logical index `e` of its plane.
  CINCH_HD void locate(std::uint32_t e, std::int32_t (&entry)[3]) const noexcept {
    std::uint32_t h = order.by_width.split(e);
    const std::uint32_t d = order.by_height.split(h);
    entry[0] = static_cast<std::int32_t>(d);
    entry[1] = output[0] + static_cast<std::int32_t>(h);
    entry[2] = output[0] + output[1] + static_cast<std::int32_t>(e);
  }

  CINCH_HD void unravel(std::int64_t index, std::int32_t (&at)[3]) const noexcept {
    auto w = static_cast<std::uint32_t>(index);
    std::uint32_t h = by_input_width.split(w);
    at[0] = static_cast<std::int32_t>(by_input_height.split(h));
    at[1] = static_cast<std::int32_t>(h);
    at[2] = static_cast<std::int32_t>(w);
  }
};

/// Scratch memory: the window shape, then the tables.
struct WindowTables {
  std::int32_t extent[3];
  std::int32_t bits;
  std::int32_t entries[1];  ///< smallest coordinates, then largest

  CINCH_HD std::int32_t* min() noexcept { return entries; }
  CINCH_HD std::int32_t* max(const WindowJob& job) noexcept { return entries + job.entries; }
};

/// Where the origin of a window lies in the input, or a number that equals it modulo 2^32 where an
/// axis has so many more elements. @param origins of all coordinates @param height, width of what
/// the origin counts in: the input, or a window
__device__ __forceinline__ std::uint32_t window_origin(const WindowJob& job,
                                                       const std::int32_t* origins,
                                                       std::uint32_t pixel, std::int32_t height,
                                                       std::int32_t width) {
  std::int32_t entry[3];
  job.locate(pixel, entry);
  const auto of = [&](int axis) { return static_cast<std::uint32_t>(origins[entry[axis]]); };
  return (of(0) * static_cast<std::uint32_t>(height) + of(1)) * static_cast<std::uint32_t>(width) +
         of(2);
}

/// How far the index of each code lies from its window's origin, in shared memory.
class WindowOffsets {
 public:
  /// All threads of the block must call it. @param in encoded data, perhaps damaged
  __device__ __forceinline__ WindowOffsets(const WindowJob& job, const std::byte* in, int bits,
                                           std::uint32_t (&offsets)[1 << kWindowMaxBits])
      : offsets_(offsets),
        mask_((1U << bits) - 1),
        last_(static_cast<std::uint32_t>(job.index_end - 1)) {
    const auto* const header = reinterpret_cast<const std::int32_t*>(in);
    const auto kh = static_cast<std::uint32_t>(header[2] > 0 ? header[2] : 1);
    const auto kw = static_cast<std::uint32_t>(header[3] > 0 ? header[3] : 1);
    for (std::uint32_t code = threadIdx.x; code <= mask_; code += blockDim.x) {
      const std::uint32_t h = code / kw % kh;
      const std::uint32_t d = code / kw / kh;
      offsets[code] = (d * static_cast<std::uint32_t>(job.input[1]) + h) *
                          static_cast<std::uint32_t>(job.input[2]) +
                      code % kw;
    }
    __syncthreads();
  }

  /// Only damaged bytes give an index outside of the plane. Backward must not get such an index.
  __device__ __forceinline__ std::uint32_t index(std::uint32_t origin, std::uint64_t codes) const {
    const std::uint32_t index = origin + offsets_[static_cast<std::uint32_t>(codes) & mask_];
    return index > last_ ? last_ : index;
  }

 private:
  const std::uint32_t* offsets_;
  std::uint32_t mask_;
  std::uint32_t last_;
};

/// The code of an index whose window begins at window_origin. Garbage if it isn't representable.
__device__ __forceinline__ std::uint32_t window_code(const WindowJob& job, std::int64_t index,
                                                     std::uint32_t origin, std::int32_t height,
                                                     std::int32_t width) {
  std::int32_t at[3];
  job.unravel(index, at);
  return (static_cast<std::uint32_t>(at[0]) * static_cast<std::uint32_t>(height) +
          static_cast<std::uint32_t>(at[1])) *
             static_cast<std::uint32_t>(width) +
         static_cast<std::uint32_t>(at[2]) - origin;
}

/// Adds coordinates to the tables. Most elements change nothing in them, so a comparison first
/// saves the atomic.
__device__ __forceinline__ void widen(std::int32_t* min, std::int32_t* max, std::int32_t entry,
                                      std::int32_t least, std::int32_t greatest) {
  if (least < min[entry]) atomicMin(min + entry, least);
  if (greatest > max[entry]) atomicMax(max + entry, greatest);
}

}  // namespace cinch::codecs::cuda
