// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/blocks/header.cuh"
#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/formats/lossless/exponent_pack.h"

/// A block of threads takes a block of elements, each thread two pieces of eight consecutive ones.
/// The block's bytes are put together, or taken apart, in shared memory.
namespace cinch::codecs::cuda {

inline constexpr unsigned kPackThreads = 256;
inline constexpr int kPackPieces = kPackElements / kStretch / kPackThreads;  ///< of a thread
static_assert(kPackPieces == 2);

struct PackJob {
  LogicalOrder order;
  std::int64_t elements;
  PackLayout at;
  ElementType type;
  bool vectors;  ///< elements may be accessed by 16 bytes

  /// @param memory where the elements lie
  PackJob(const Description& what, const void* memory) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        at(what.layout.elements()),
        type(what.type),
        vectors(order.contiguous && is_vector_aligned(memory)) {}

  /// Number of elements of block `block`.
  __device__ __forceinline__ int elements_of(std::int64_t block) const {
    const std::int64_t left = elements - block * kPackElements;
    return static_cast<int>(left < kPackElements ? left : kPackElements);
  }

  /// @param size the encoded size
  __device__ __forceinline__ void write_header(std::int64_t size, std::byte* out,
                                               Result* result) const {
    store_header(pack_header(type, elements, size), out, result);
  }
};

/// A block's bytes, and a byte for each of its elements that is held: a code or a top.
template <typename T>
struct PackMemory {
  std::uint64_t bytes[kPackElements * sizeof(T) / 8 + 1];  ///< codes are read with what follows
  std::uint64_t tops[kPackElements / 8];
};

/// The calling thread's `p`-th piece of a block.
__device__ __forceinline__ int piece_of(int p) {
  return p * int{kPackThreads} + static_cast<int>(threadIdx.x);
}

/// How many of `items` a piece has, 0 to 8.
__device__ __forceinline__ int in_piece(int piece, int items) {
  const int left = items - piece * kStretch;
  return left < 0 ? 0 : left < kStretch ? left : kStretch;
}

/// A bit for each of the first `count` of eight.
__device__ __forceinline__ unsigned first_bits(int count) {
  return (1U << count) - 1U;
}

struct PieceSums {
  int before[kPackPieces];  ///< over the pieces before each of the thread's
  int total;
};

/// Adds up how many bits are set for each piece of the block. All threads of the block must call
/// it; it has barriers.
__device__ __forceinline__ PieceSums sum_bits(const unsigned (&bits)[kPackPieces]) {
  const auto count = [&](int p) { return static_cast<unsigned>(__popc(bits[p])); };
  unsigned total = 0;  // of all threads' first pieces, and of their second ones
  const unsigned before = BlockScan<kPackThreads>::exclusive(count(0) | count(1) << 16, total);
  const auto firsts = static_cast<int>(total & 0xFFFFU);
  return {{static_cast<int>(before & 0xFFFFU), firsts + static_cast<int>(before >> 16)},
          firsts + static_cast<int>(total >> 16)};
}

/// Rests are stored in parts of 4, 2 and 1 bytes; those of a halved block lack the widest. Calls f
/// for each part, with a null pointer to its type, where the part of all `held` elements begins,
/// and its first bit in the element.
template <typename T, bool kHalved, typename F>
__device__ __forceinline__ void for_each_part(int held, const F& f) {
  constexpr int kLeftOut = kHalved ? static_cast<int>(sizeof(T)) / 2 : 0;  // bytes of an element
  constexpr int kLast = static_cast<int>(sizeof(T)) - 2;
  if constexpr (sizeof(T) == 8 && !kHalved) f(static_cast<std::uint32_t*>(nullptr), 0, 0);
  if constexpr (sizeof(T) == 8) f(static_cast<std::uint16_t*>(nullptr), (4 - kLeftOut) * held, 32);
  if constexpr (sizeof(T) == 4 && !kHalved) f(static_cast<std::uint16_t*>(nullptr), 0, 0);
  f(static_cast<std::uint8_t*>(nullptr), (kLast - kLeftOut) * held, 8 * kLast);
}

/// Calls f(std::bool_constant), which tells whether a block of T is halved.
template <typename T, typename F>
__device__ __forceinline__ void with_halved(const PackBlock& block, const F& f) {
  if constexpr (can_be_halved(sizeof(T))) {
    if (block.halved != 0) return f(std::true_type());
  }
  f(std::false_type());
}

}  // namespace cinch::codecs::cuda
