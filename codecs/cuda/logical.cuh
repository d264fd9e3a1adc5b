// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cuda/device.h"
#include "codecs/cuda/elements.cuh"
#include "codecs/cuda/fast_divide.h"
#include "codecs/with_pattern.h"

/// Element-wise kernels: blocks of threads take stretches of logical elements, wherever these lie.
namespace cinch::codecs::cuda {

inline constexpr unsigned kRunThreads = 256;
/// Logical elements of a block of threads, eight a thread.
inline constexpr std::int32_t kRunReach = kRunThreads * kStretch;

/// Planes up to this size, and as many channels, are counted in 32 bits within a block's reach.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

/// From logical indices to memory offsets.
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

/// The place of a block of threads in the logical order.
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

/// Eight elements as 32-bit words, loaded and stored in the widest accesses that fit.
template <typename T>
union Patterns {
  T of[kStretch];
  std::uint32_t word[kStretch * sizeof(T) / 4];
};

/// Eight elements of any type as bit patterns; those at and beyond `count` are left as they are.
template <typename T>
__device__ __forceinline__ void load_any(const T* source, const BlockPlace& place, std::uint32_t i,
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

template <typename T>
__device__ __forceinline__ void store_any(T* target, const BlockPlace& place, std::uint32_t i,
                                          int count, bool vectors, const Patterns<T>& x) {
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
