// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/header.cuh"
#include "codecs/cuda/logical.cuh"
#include "codecs/exponent_pack.h"

/// A block of threads takes a block of elements; a warp takes a stretch of 32, one a lane.
namespace cinch::codecs::cuda {

inline constexpr unsigned kPackThreads = 256;
inline constexpr int kPackWarps = kPackThreads / kWarp;
inline constexpr int kPackEach = kPackElements / kPackThreads;  ///< elements of a thread
inline constexpr int kPackStretches = kPackElements / kPackStretch;
static_assert(kPackStretch == kWarp && kPackStretches <= int{kPackThreads});

struct PackJob {
  LogicalOrder order;
  std::int64_t elements;
  PackLayout at;
  ElementType type;

  explicit PackJob(const Description& what) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        at(what.layout.elements()),
        type(what.type) {}

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

/// The calling thread's `j`-th element of a block, and its stretch.
__device__ __forceinline__ int element_of(int j) {
  return j * int{kPackThreads} + static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int stretch_of(int j) {
  return j * kPackWarps + static_cast<int>(threadIdx.x / kWarp);
}
__device__ __forceinline__ bool leads_warp() {
  return threadIdx.x % kWarp == 0;
}

/// Replaces the count of each stretch by the sum over the stretches before it. Begins and ends with
/// a barrier. @return the sum over all stretches
__device__ __forceinline__ int sum_stretches(std::int32_t* counts) {
  __syncthreads();
  int total = 0;
  const bool has_stretch = threadIdx.x < kPackStretches;
  const int own = has_stretch ? counts[threadIdx.x] : 0;
  const int before = BlockScan<kPackThreads>::exclusive(own, total);
  if (has_stretch) counts[threadIdx.x] = before;
  __syncthreads();
  return total;
}

/// How many lanes before this one have a 1 in `ballot`.
__device__ __forceinline__ int lanes_before(std::uint32_t ballot) {
  return __popc(ballot & ((1U << threadIdx.x % kWarp) - 1U));
}

/// Rests are stored in parts of 4, 2 and 1 bytes. Calls f for each part, with a null pointer to its
/// type, where the part of all `held` elements begins, and its first bit in the rotated element.
template <typename T, typename F>
__device__ __forceinline__ void for_each_part(int held, const F& f) {
  if constexpr (sizeof(T) == 8) f(static_cast<std::uint32_t*>(nullptr), 0, 0);
  if constexpr (sizeof(T) == 8) f(static_cast<std::uint16_t*>(nullptr), 4 * held, 32);
  if constexpr (sizeof(T) == 4) f(static_cast<std::uint16_t*>(nullptr), 0, 0);
  constexpr int kBefore = static_cast<int>(sizeof(T)) - 2;
  f(static_cast<std::uint8_t*>(nullptr), kBefore * held, 8 * kBefore);
}

template <typename T>
__device__ __forceinline__ unsigned top_of(T rotated) {
  return static_cast<unsigned>(rotated >> (8 * (sizeof(T) - 1)));
}

}  // namespace cinch::codecs::cuda
