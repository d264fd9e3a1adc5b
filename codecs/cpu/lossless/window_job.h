// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Division of v in [0, 2^31) by a constant: (v * multiplier) >> shift. The multiplier is 2^shift /
/// divisor rounded up, with shift = 31 + ceil(log2(divisor)). Its error is below 2^-31, so the
/// result never reaches the next quotient; it is itself below 2^32.
struct Divisor {
  std::uint32_t multiplier;
  int shift;

  explicit Divisor(std::int64_t divisor) noexcept
      : shift(31 + std::bit_width(static_cast<std::uint64_t>(divisor - 1))) {
    const auto by = static_cast<std::uint64_t>(divisor);
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + by - 1) / by);
  }
};

/// Facts that all tasks of one encode or decode of window indices share.
struct WindowJob {
  const PlaneLayout& layout;
  std::array<std::int64_t, 3> output;  ///< extents of a plane of indices
  std::uint32_t height;                ///< of the pooling input
  std::uint32_t width;
  std::int64_t last;  ///< largest valid index
  bool flat;          ///< the pooling input's planes have a depth of 1
  Divisor by_height;
  Divisor by_width;

  explicit WindowJob(const Description& what) noexcept
      : layout(what.layout),
        output(what.layout.extent),
        height(static_cast<std::uint32_t>(what.index_extent[1])),
        width(static_cast<std::uint32_t>(what.index_extent[2])),
        last(what.index_extent[0] * what.index_extent[1] * what.index_extent[2] - 1),
        flat(what.index_extent[0] == 1),
        by_height(what.index_extent[1]),
        by_width(what.index_extent[2]) {}

  /// Entries of a table: one for each output d, then h, then w.
  std::int64_t table_size() const noexcept { return output[0] + output[1] + output[2]; }
  /// The same with room for a vector behind them.
  std::int64_t table_room() const noexcept { return table_size() + kMaxLanes; }
  std::int64_t grain() const noexcept { return planes_per_byte(layout.plane_size()); }

  /// Calls `bool f(const int64* plane)` with each plane of [first, end) in order, contiguous.
  /// @return false as soon as one call did, or when memory ran out
  template <typename F>
  bool for_each_plane(const void* source, std::int64_t first, std::int64_t end, const F& f) const {
    const std::int64_t n = layout.plane_size();
    const auto* const memory = static_cast<const std::int64_t*>(source);
    if (has_dense_planes(layout)) {
      for (std::int64_t p = first; p < end; ++p) {
        if (!f(memory + plane_offset(layout, p))) return false;
      }
      return true;
    }
    const std::int64_t tile = planes_per_tile(layout, sizeof(std::int64_t));
    auto* const gathered = workspace().tile.get<std::int64_t>(tile * n);
    if (gathered == nullptr) return false;
    for (std::int64_t p = first; p < end; p += tile) {
      const std::int64_t count = std::min(tile, end - p);
      gather_planes(layout, sizeof(std::int64_t), source, p, count, gathered);
      for (std::int64_t i = 0; i < count; ++i) {
        if (!f(const_cast<const std::int64_t*>(gathered + i * n))) return false;
      }
    }
    return true;
  }

  /// Calls `bool f(p, int64* plane)`, which fills the plane, for planes [first, end).
  template <typename F>
  bool make_each_plane(void* target, std::int64_t first, std::int64_t end, const F& f) const {
    const std::int64_t n = layout.plane_size();
    auto* const memory = static_cast<std::int64_t*>(target);
    if (has_dense_planes(layout)) {
      for (std::int64_t p = first; p < end; ++p) {
        if (!f(p, memory + plane_offset(layout, p))) return false;
      }
      return true;
    }
    const std::int64_t tile = planes_per_tile(layout, sizeof(std::int64_t));
    auto* const made = workspace().tile.get<std::int64_t>(tile * n);
    if (made == nullptr) return false;
    for (std::int64_t p = first; p < end; p += tile) {
      const std::int64_t count = std::min(tile, end - p);
      for (std::int64_t i = 0; i < count; ++i) {
        if (!f(p + i, made + i * n)) return false;
      }
      scatter_planes(layout, sizeof(std::int64_t), made, p, count, target);
    }
    return true;
  }

 private:
  /// 64-bit lanes of the widest vector of any target.
  static constexpr std::int64_t kMaxLanes = 8192;
};

}  // namespace cinch::codecs::cpu
