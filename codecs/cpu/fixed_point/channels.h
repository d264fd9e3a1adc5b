// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "codecs/codec.h"

/// Where memory has the elements of one channel, in the order of (o, d, h, w).
namespace cinch::codecs::cpu {

/// The axes (o, d, h, w) of a layout. Axes are joined where one stride serves both.
class ChannelWalk {
 public:
  explicit ChannelWalk(const PlaneLayout& layout) noexcept {
    append(layout.outer, layout.outer_stride);
    for (int axis = 0; axis < 3; ++axis) append(layout.extent[axis], layout.stride[axis]);
    if (axes_ == 0) append_axis(1, 1);
  }

  /// Distance in elements between neighbours along the innermost axis.
  std::int64_t inner_stride() const noexcept { return stride_[axes_ - 1]; }
  /// Number of elements that lie inner_stride() apart.
  std::int64_t run() const noexcept { return extent_[axes_ - 1]; }

  /// Calls `f(begin, count, offset)` for the runs that elements [first, first + n) consist of:
  /// elements [first + begin, first + begin + count) lie inner_stride() apart from `offset`.
  template <typename F>
  void for_each_run(std::int64_t first, std::int64_t n, const F& f) const {
    for (std::int64_t begin = 0; begin < n;) {
      std::int64_t rest = first + begin;
      const std::int64_t in_run = rest % run();
      std::int64_t offset = 0;
      for (int axis = axes_ - 1; axis >= 0; --axis) {
        offset += rest % extent_[axis] * stride_[axis];
        rest /= extent_[axis];
      }
      const std::int64_t count = std::min(run() - in_run, n - begin);
      f(begin, count, offset);
      begin += count;
    }
  }

 private:
  void append(std::int64_t extent, std::int64_t stride) noexcept {
    if (extent == 1) return;
    if (axes_ > 0 && stride_[axes_ - 1] == extent * stride) {
      extent_[axes_ - 1] *= extent;
      stride_[axes_ - 1] = stride;
      return;
    }
    append_axis(extent, stride);
  }

  void append_axis(std::int64_t extent, std::int64_t stride) noexcept {
    extent_[axes_] = extent;
    stride_[axes_] = stride;
    ++axes_;
  }

  int axes_ = 0;
  std::array<std::int64_t, 4> extent_ = {};
  std::array<std::int64_t, 4> stride_ = {};
};

/// Copies `count` elements, `stride` elements apart at `memory`, to `together`.
template <typename T>
void gather_run(const T* memory, std::int64_t stride, std::int64_t count, T* together) noexcept {
  if (stride == 1) {
    std::memcpy(together, memory, count * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) together[i] = memory[i * stride];
}

/// The reverse of gather_run.
template <typename T>
void scatter_run(const T* together, std::int64_t stride, std::int64_t count, T* memory) noexcept {
  if (stride == 1) {
    std::memcpy(memory, together, count * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) memory[i * stride] = together[i];
}

}  // namespace cinch::codecs::cpu
