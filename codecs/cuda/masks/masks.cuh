// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/masks/mask_tiles.cuh"
#include "codecs/layout.h"

/// Kernels for codecs that store one bit an element. The codec says what a bit means.
namespace cinch::codecs::cuda {

/// Where the elements of an element-wise kernel lie.
struct MaskJob {
  LogicalOrder order;
  std::int64_t elements;
  bool vectors;

  MaskJob(const Description& what, const void* memory) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        vectors(order.contiguous && is_vector_aligned(memory)) {}
};

/// The same for a kernel that takes tiles where channels lie side by side.
struct TiledMaskJob : MaskJob {
  ChannelTiles tiles;
  std::size_t shared_bytes;  ///< of an encode

  /// @param writes_mask whether it encodes
  TiledMaskJob(const Description& what, const void* memory, bool writes_mask) noexcept
      : MaskJob(what, memory),
        tiles(what.layout, memory, element_size_or_byte(what.type), writes_mask),
        shared_bytes(writes_mask ? tiles.mask_bytes() : 0) {}

  unsigned threads() const noexcept { return tiles.count > 0 ? tiles.threads : kRunThreads; }
  unsigned blocks(Stream stream) const noexcept {
    return tiles.count > 0 ? blocks_in(stream, tiles.count, tiles.threads)
                           : run_blocks(stream, elements);
  }
};

/// Calls f with whether the job has tiles, as a std::bool_constant. Kernels for tiles are apart, as
/// they need more registers.
template <typename F>
bool with_tiles(const TiledMaskJob& job, const F& f) {
  return job.tiles.count > 0 ? f(std::true_type()) : f(std::false_type());
}

/// The bits of the first `count` of eight elements.
template <typename T, typename Test>
__device__ __forceinline__ unsigned test_stretch(const Patterns<T>& x, int count, const Test& test,
                                                 bool& strange) {
  unsigned bits = 0;
  if (count < kStretch) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j < count) bits |= static_cast<unsigned>(test(x.of[j], strange)) << j;
    }
  } else if constexpr (TestsPairs<Test, T>) {
    std::uint32_t any = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t both = test.pair(x.word[w], any) & kPairBits;
      bits |= (both >> 15 | both >> 30) << 2 * w;  // a bit 16 + 2 * w is left over
    }
    strange |= (any & kPairBits) != 0;
  } else {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      bits |= static_cast<unsigned>(test(x.of[j], strange)) << j;
    }
  }
  return bits;
}

/// Sets bit k of `out` to test(bit pattern of element k, strange). `test` sets `strange` if the
/// codec can't represent the element.
template <typename T, bool tiled, typename Test>
__device__ __forceinline__ void encode_mask(const TiledMaskJob& job, const void* source,
                                            std::byte* out, Result* result, const Test& test) {
  if constexpr (tiled) {
    encode_mask_tiles<T>(job.tiles, source, out, result, test);
  } else {
    for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
      Patterns<T> x = {};
      load_any(static_cast<const T*>(source), place, i, count, job.vectors, x);
      bool strange = false;
      out[(first + i) / 8] = static_cast<std::byte>(test_stretch(x, count, test, strange));
      if (strange) result->not_representable = 1;
    });
  }
}

/// Sets element k of `target` to restore(bit pattern, bit k of `in`). @param kReads whether that is
/// the pattern which `target` holds, or 0
template <typename T, bool tiled, bool kReads, typename Restore>
__device__ __forceinline__ void restore_by_mask(const TiledMaskJob& job, const std::byte* in,
                                                void* target, const Restore& restore) {
  if constexpr (tiled) {
    decode_mask_tiles<T, kReads>(job.tiles, in, target, restore);
  } else {
    for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
      const auto bits = static_cast<unsigned>(in[(first + i) / 8]);
      Patterns<T> x = {};
      if (kReads) load_any(static_cast<const T*>(target), place, i, count, job.vectors, x);
#pragma unroll
      for (int j = 0; j < kStretch; ++j) x.of[j] = restore(x.of[j], (bits >> j & 1U) != 0);
      store_any(static_cast<T*>(target), place, i, count, job.vectors, x);
    });
  }
}

/// Two patterns of 16 bits, and what is known of them in bits 15 and 31 of words.
struct SignPair {
  std::uint32_t nonzero, nan, positive;

  __device__ __forceinline__ SignPair(std::uint32_t patterns, std::uint32_t infinity) {
    const std::uint32_t magnitudes = patterns & ~kPairBits;
    nonzero = magnitudes + 0x7FFF7FFFU;
    nan = magnitudes + (0x7FFFU - infinity) * 0x10001U;
    positive = nonzero & ~(patterns | nan);
  }
};

/// Sets element k of `target` to `set` where bit k of `in` is 1, else to `clear`.
template <typename T, bool tiled>
__device__ __forceinline__ void decode_mask(const TiledMaskJob& job, const std::byte* in, T set,
                                            T clear, void* target) {
  restore_by_mask<T, tiled, false>(job, in, target,
                                   [&](T, bool positive) { return positive ? set : clear; });
}

}  // namespace cinch::codecs::cuda
