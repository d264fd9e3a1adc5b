// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/workspace.h"

/// Access to stretches: elements in logical order that begin and end anywhere in planes.
namespace cinch::codecs::cpu {

/// The same elements in the same logical order, as smaller planes where these are easier to copy:
/// samples (C, H, W) of interleaved channels become C channels each.
PlaneLayout finer_planes(const PlaneLayout& layout) noexcept;

/// How many planes of `layout` to copy at once: planes_per_tile, or a fraction of it where that is
/// more than a thread should hold.
std::int64_t planes_per_window(const PlaneLayout& layout, std::size_t element_size) noexcept;

/// Reads stretches of a source, front to back. Gathers a window of planes where memory does not
/// hold them contiguously.
class StretchReader {
 public:
  /// Stretches end at logical index `end` or before.
  StretchReader(const PlaneLayout& layout, std::size_t element_size, const void* source,
                std::int64_t end, Buffer& buffer) noexcept;

  /// Elements [begin, begin + count), valid until the next call; null when memory ran out.
  /// @pre count > 0
  const std::byte* read(std::int64_t begin, std::int64_t count) noexcept;

 private:
  /// Gathers planes [plane, stop), and more up to a window. @return false when memory ran out
  bool gather(std::int64_t plane, std::int64_t stop) noexcept;

  PlaneLayout layout_;
  std::size_t element_size_;
  const std::byte* source_;
  std::int64_t end_;
  Buffer& buffer_;
  bool contiguous_;
  bool dense_;
  std::int64_t window_ = 1;  ///< planes to gather at once
  std::int64_t first_ = 0;   ///< gathered planes [first_, last_)
  std::int64_t last_ = 0;
  std::int64_t room_ = 0;  ///< planes that fit
  std::byte* gathered_ = nullptr;
};

}  // namespace cinch::codecs::cpu
