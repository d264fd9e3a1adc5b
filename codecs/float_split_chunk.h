// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/float_split.h"

/// Chunks of `float_split`, over what an engine does with their elements.
namespace cinch::codecs {

/// Bytes behind packed elements that kernels may read and write.
inline constexpr std::int64_t kSplitSlack = 64;
inline constexpr std::int64_t kSplitPlaneStride = kSplitChunk + kSplitSlack;

/// An engine's work on `n` elements of `size` bytes, 2, 4 or 8. Pointers to elements are aligned to
/// their size.
struct SplitKernels {
  /// Sets the mask's bits, in whole bytes, of what isn't zero.
  void (*find_nonzeros)(std::size_t size, const void* x, std::int64_t n, std::byte* mask);
  /// Elements whose bit is set, one behind the other. Their number is known from the mask.
  void (*pack_nonzeros)(std::size_t size, const void* x, const std::byte* mask, std::int64_t n,
                        void* packed);
  /// The way back; elements whose bit isn't set become 0.
  void (*spread_nonzeros)(std::size_t size, const void* packed, const std::byte* mask,
                          std::int64_t n, void* x);
  /// Plane j to `planes` + j * kSplitPlaneStride.
  void (*split)(std::size_t size, const void* x, std::int64_t n, std::byte* planes);
  /// The way back, from planes that lie anywhere.
  void (*merge)(std::size_t size, const std::byte* const* planes, std::int64_t n, void* x);
};

/// Memory that coding a chunk needs.
class SplitScratch {
 public:
  static std::int64_t bytes(std::size_t size) noexcept;
  /// @pre `memory` is aligned for 64-bit words and has bytes(size)
  SplitScratch(std::byte* memory, std::size_t size) noexcept;

  std::byte* packed;  ///< elements of a chunk or a sample
  std::byte* mask;
  std::byte* planes;
};

/// The most that a chunk of `n` elements takes.
inline std::int64_t split_chunk_bytes(std::size_t size, std::int64_t n) noexcept {
  return kSplitChunkHeaderBytes + n * static_cast<std::int64_t>(size);
}

/// Encodes `n` elements, 1 to kSplitChunk, into at most split_chunk_bytes(size, n) bytes.
/// @return how many
std::int64_t encode_split_chunk(const SplitKernels& kernels, std::size_t size, const void* x,
                                std::int64_t n, std::byte* out, SplitScratch scratch) noexcept;

/// @return false when `in` is not what encode_split_chunk writes for `n` elements
bool decode_split_chunk(const SplitKernels& kernels, std::size_t size,
                        std::span<const std::byte> in, std::int64_t n, void* x,
                        SplitScratch scratch) noexcept;

}  // namespace cinch::codecs
