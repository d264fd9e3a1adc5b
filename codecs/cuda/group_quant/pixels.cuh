// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "codecs/cuda/group_quant/decode.cuh"
#include "codecs/cuda/group_quant/samples.cuh"

/// Decodes channels-last samples whose channels are whole stretches. A thread decodes the same
/// eight pixels of as many channels as fill 16 bytes, and transposes them in its registers: it
/// needs nothing of other threads.
namespace cinch::codecs::cuda {

/// Threads of a block, and blocks of a multiprocessor: as many as have the registers for it, of
/// which a thread fills 32 with elements.
inline constexpr unsigned kPixelThreads = 128;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr unsigned kPixelBlocks = 4;  // with five, a kernel for these devices would spill
#else
inline constexpr unsigned kPixelBlocks = 5;
#endif

/// The threads' pieces: eight pixels of a vector of channels.
struct GroupPixels {
  std::int64_t pixel_stride, sample_stride;  ///< in elements
  std::uint32_t stretches;                   ///< of a channel
  std::uint32_t vectors;                     ///< of a pixel
  /// Logarithm of the vectors of a column, which neighbouring lanes take: up to 64 bytes, so that
  /// lanes store whole sectors. The other lanes of a warp take the next pixels: their codes are
  /// neighbours.
  std::uint32_t shift;
  FastDivide by_stretches;
  FastDivide by_columns;  ///< columns of a sample
  std::uint32_t pieces;   ///< 0: there can be none

  GroupPixels(const GroupJob& job, const SamplesLast& samples, std::size_t element) noexcept
      : pixel_stride(samples.pixel_stride), sample_stride(samples.sample_stride), pieces(0) {
    if (!samples.vectors || samples.pixels % kStretch != 0) return;
    const std::int64_t across = samples.channels / static_cast<std::int64_t>(16 / element);
    shift = across >= 3 ? 2 : across == 2 ? 1 : 0;
    const std::int64_t columns = (across + (1 << shift) - 1) >> shift;
    const std::int64_t all = job.planes * columns * (samples.pixels / kStretch) << shift;
    if (all > kMaxPieces) return;
    stretches = static_cast<std::uint32_t>(samples.pixels / kStretch);
    vectors = static_cast<std::uint32_t>(across);
    by_stretches = FastDivide(stretches);
    by_columns = FastDivide(columns);
    pieces = static_cast<std::uint32_t>(all);
  }

 private:
  static constexpr std::int64_t kMaxPieces = std::int64_t{1} << 30;  ///< for FastDivide
};

/// A thread's piece.
struct GroupPiece {
  std::uint32_t sample;
  std::uint32_t vector;   ///< of its pixels; perhaps none that exists
  std::uint32_t stretch;  ///< in each of the channels

  __device__ __forceinline__ GroupPiece(const GroupPixels& pixels, std::uint32_t index) {
    const std::uint32_t lane = index & ((1U << pixels.shift) - 1);
    stretch = index >> pixels.shift;
    std::uint32_t column = pixels.by_stretches.split(stretch);
    sample = pixels.by_columns.split(column);
    vector = (column << pixels.shift) + lane;
  }
};

/// The joined codes of a stretch of its plane. @param codes where the plane's begin
template <int kBits>
__device__ __forceinline__ std::uint64_t load_plane_codes(const std::byte* codes,
                                                          std::uint32_t stretch, int bits) {
  if constexpr (kBits == 3) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(codes) + (3 * stretch >> 2);
    const std::uint32_t low = words[0];
    std::uint32_t high = 0;
    if ((3 * stretch & 2U) != 0) high = words[1];  // not where it holds none of the three bytes
    return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (24 * stretch & 31U));
  }
  const std::byte* const at =
      codes + std::uint64_t{stretch} * static_cast<std::uint32_t>(kBits > 0 ? kBits : bits);
  return load_stretch_bits(at, kBits > 0 ? kBits : bits, kBits > 0 || can_access_at_once(at, bits));
}

/// Any number of blocks of threads will do. @param kBits job.usual_bits(), or 0
template <ElementType type, bool subtractive, int kBits>
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks)
    group_quant_decode_pixels(const GroupJob job, const GroupPixels pixels,
                              const std::int64_t* offsets, const std::byte* in, void* target) {
  using Bits = typename Element<type>::Bits;
  constexpr int kVector = Element<type>::kPerVector;
  const RoundKeys keys(subtractive ? load_key(in) : RandomKey());
  const std::uint32_t group_shift = kBits > 0 ? 5 : job.half_shift + 1;
#pragma unroll 1
  for (std::uint32_t index = blockIdx.x * kPixelThreads + threadIdx.x; index < pixels.pieces;
       index += gridDim.x * kPixelThreads) {
    const GroupPiece piece(pixels, index);
    if (piece.vector >= pixels.vectors) continue;
    const PlaneCodes plane = plane_codes(job, in, offsets, piece.sample);
    const int bits = kBits > 0 ? kBits : plane.bits;
    const auto* const ranges = reinterpret_cast<const std::uint32_t*>(in + job.ranges_at) +
                               std::int64_t{piece.sample} * static_cast<std::uint32_t>(job.groups);
    const std::int64_t before =
        std::int64_t{piece.sample} * (static_cast<std::uint32_t>(job.size) / kStretch);
    const std::uint32_t first = piece.vector * kVector * pixels.stretches + piece.stretch;

    const auto load_codes = [&](std::uint32_t stretch) -> std::uint64_t {
      // What damaged bits of planes make of the codes' places may end behind the data.
      if (kBits == 0 && job.mixed &&
          plane.at + (std::int64_t{stretch} + 1) * plane.bits > job.end) {
        return 0;
      }
      return load_plane_codes<kBits>(in + plane.at, stretch, bits);
    };

    // All loads before the first use. Codes of any number of bits would take too many registers.
    std::uint32_t range[kVector];
    std::uint32_t packed[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const std::uint32_t stretch = first + v * pixels.stretches;
      range[v] = ranges[stretch >> group_shift];
      if (kBits > 0) packed[v] = static_cast<std::uint32_t>(load_codes(stretch));
    }
    std::uint32_t of_plane[kVector][kStretchWords<type>];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const std::uint32_t stretch = first + v * pixels.stretches;
      restore_group_stretch<type, subtractive>(kBits > 0 ? packed[v] : load_codes(stretch), bits,
                                               range[v], before + stretch, keys, of_plane[v]);
    }
    store_pixels<type>(of_plane, kStretch,
                       static_cast<Bits*>(target) + piece.sample * pixels.sample_stride +
                           piece.vector * kVector +
                           std::int64_t{piece.stretch} * kStretch * pixels.pixel_stride,
                       pixels.pixel_stride);
  }
}

}  // namespace cinch::codecs::cuda
