// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cuda/device.h"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/elements/fast_divide.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/with_pattern.h"

/// For element-wise kernels: a block of threads takes runs of consecutive elements in logical
/// order, wherever they lie in memory.
namespace cinch::codecs::cuda {

inline constexpr unsigned kRunThreads = 256;
/// Logical elements of a run, eight for each thread of a block.
inline constexpr std::int32_t kRunReach = kRunThreads * kStretch;

/// Number of blocks of kRunThreads for a kernel that takes runs; 0 for no elements.
inline unsigned run_blocks(Stream stream, std::int64_t elements) noexcept {
  return blocks_in(stream, blocks_for(elements, kRunReach), kRunThreads);
}

/// The largest plane, and the most channels, for which 32 bits count within a block's reach.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

/// A layout with precomputed divisors, to turn logical indices into memory offsets.
struct LogicalOrder {
  PlaneLayout layout;
  bool contiguous;
  FastDivide by_size, by_inner, by_height, by_width;

  explicit LogicalOrder(const PlaneLayout& of) noexcept
      : layout(of),
        contiguous(of.is_contiguous()),
        by_size(of.plane_size()),
        by_inner(of.inner),
        by_height(of.extent[1]),
        by_width(of.extent[2]) {}

  static bool accepts(const PlaneLayout& layout) noexcept {
    return layout.planes() == 0 ||
           (layout.plane_size() <= kMaxExtent && layout.inner <= kMaxExtent);
  }
};

/// Where a block of threads begins in logical order.
class BlockPlace {
 public:
  __device__ __forceinline__ BlockPlace(const LogicalOrder& order, std::int64_t first)
      : order_(order), first_(first) {
    if (order.contiguous) return;
    const std::int64_t plane = first / order.layout.plane_size();
    within_ = static_cast<std::uint32_t>(first % order.layout.plane_size());
    outer_ = plane / order.layout.inner;
    inner_ = static_cast<std::uint32_t>(plane % order.layout.inner);
  }

  /// Memory offset of logical element first + i. @pre i < 2^30
  __device__ __forceinline__ std::int64_t offset(std::uint32_t i) const {
    if (order_.contiguous) return first_ + i;
    std::uint32_t w = within_ + i;
    std::uint32_t c = inner_ + order_.by_size.split(w);
    const std::int64_t o = outer_ + order_.by_inner.split(c);
    std::uint32_t h = order_.by_width.split(w);
    const std::uint32_t d = order_.by_height.split(h);
    const PlaneLayout& l = order_.layout;
    return o * l.outer_stride + c * l.inner_stride + d * l.stride[0] + h * l.stride[1] +
           w * l.stride[2];
  }

 private:
  const LogicalOrder& order_;
  std::int64_t first_;
  std::int64_t outer_ = 0;
  std::uint32_t inner_ = 0;
  std::uint32_t within_ = 0;
};

/// Calls `take` with the first logical index of each run that the block takes. Any number of blocks
/// of threads will do.
template <typename Take>
__device__ __forceinline__ void for_each_run(std::int64_t elements, const Take& take) {
#pragma unroll 1
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRunReach; first < elements;
       first += std::int64_t{gridDim.x} * kRunReach) {
    take(first);
  }
}

/// As BlockPlace, of elements that lie in logical order.
class ContiguousPlace {
 public:
  __device__ __forceinline__ explicit ContiguousPlace(std::int64_t first) : first_(first) {}
  __device__ __forceinline__ std::int64_t offset(std::uint32_t i) const { return first_ + i; }

 private:
  std::int64_t first_;
};

/// Calls `take` with the calling thread's elements of each run that its block takes: `count`, from
/// 1 to 8, from logical index first + i on, where the run begins at `first` and lies at `place`.
template <typename Job, typename Take>
__device__ __forceinline__ void for_each_stretch(const Job& job, const Take& take) {
  const std::uint32_t i = threadIdx.x * kStretch;
  const auto take_at = [&](const auto& place, std::int64_t first) {
    const std::int64_t left = job.elements - first - i;
    if (left > 0) take(place, first, i, left < kStretch ? static_cast<int>(left) : kStretch);
  };
  // Apart, since the places in other layouts take many instructions before the first run.
  if (job.order.contiguous) {
    for_each_run(job.elements, [&](std::int64_t first) { take_at(ContiguousPlace(first), first); });
  } else {
    for_each_run(job.elements,
                 [&](std::int64_t first) { take_at(BlockPlace(job.order, first), first); });
  }
}

/// The bit patterns of eight elements, also as 32-bit words for wide loads and stores.
template <typename T>
union Patterns {
  T of[kStretch];
  std::uint32_t word[kStretch * sizeof(T) / 4];
};

/// Loads the first `count` of eight elements as bit patterns; leaves the others of `x` unchanged.
template <typename T, typename Place>
__device__ __forceinline__ void load_any(const T* source, const Place& place, std::uint32_t i,
                                         int count, bool vectors, Patterns<T>& x) {
  if (vectors && count == kStretch) {
    const T* const from = source + place.offset(i);
    if constexpr (sizeof(T) == 1) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      x.word[0] = v.x;
      x.word[1] = v.y;
    } else {
#pragma unroll
      for (unsigned n = 0; n < sizeof(T) / 2; ++n) {
        const uint4 v = reinterpret_cast<const uint4*>(from)[n];
        x.word[4 * n] = v.x;
        x.word[4 * n + 1] = v.y;
        x.word[4 * n + 2] = v.z;
        x.word[4 * n + 3] = v.w;
      }
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j < count) x.of[j] = source[place.offset(i + j)];
  }
}

template <typename T, typename Place>
__device__ __forceinline__ void store_any(T* target, const Place& place, std::uint32_t i, int count,
                                          bool vectors, const Patterns<T>& x) {
  if (vectors && count == kStretch) {
    T* const to = target + place.offset(i);
    if constexpr (sizeof(T) == 1) {
      *reinterpret_cast<uint2*>(to) = uint2{x.word[0], x.word[1]};
    } else {
#pragma unroll
      for (unsigned n = 0; n < sizeof(T) / 2; ++n) {
        reinterpret_cast<uint4*>(to)[n] =
            uint4{x.word[4 * n], x.word[4 * n + 1], x.word[4 * n + 2], x.word[4 * n + 3]};
      }
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j < count) target[place.offset(i + j)] = x.of[j];
  }
}

}  // namespace cinch::codecs::cuda
