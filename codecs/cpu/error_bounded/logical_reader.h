// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/codec.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Stretches of a source in logical order, cut without regard to its planes. One thread's; uses
/// `Workspace::tile` and `Workspace::plane`.
class LogicalReader {
 public:
  LogicalReader(const Description& what, const void* source) noexcept
      : layout_(what.layout),
        size_(static_cast<std::int64_t>(element_size(what.type))),
        source_(static_cast<const std::byte*>(source)),
        contiguous_(what.layout.is_contiguous()) {}

  /// How many elements tasks should take at least, so that few gather what others gather too.
  std::int64_t task_elements() const noexcept {
    if (contiguous_) return kTaskElements;
    return std::max(kTaskElements, planes_per_tile(layout_, size_) * layout_.plane_size());
  }

  /// Elements [first, first + count), until the next call; null when memory has run out.
  const std::byte* get(std::int64_t first, std::int64_t count) noexcept {
    if (contiguous_) return source_ + first * size_;
    Workspace& work = workspace();
    std::byte* stretch = nullptr;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t k = first + done;
      if ((k < tile_begin_ || k >= tile_end_) && !gather(k)) return nullptr;
      const std::byte* const found = tile_ + (k - tile_begin_) * size_;
      const std::int64_t some = std::min(count - done, tile_end_ - k);
      if (some == count) return found;
      if (stretch == nullptr) stretch = work.plane.get<std::byte>(count * size_);
      if (stretch == nullptr) return nullptr;
      std::memcpy(stretch + done * size_, found, some * size_);
      done += some;
    }
    return stretch;
  }

  /// Copies elements that nothing near will be asked for.
  void copy_apart(std::int64_t first, std::int64_t count, std::byte* to) const noexcept {
    if (contiguous_) {
      std::memcpy(to, source_ + first * size_, count * size_);
      return;
    }
    const auto& [depth, height, width] = layout_.extent;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t k = first + done;
      const std::int64_t within = k % layout_.plane_size();
      const std::int64_t w = within % width;
      const std::int64_t some = std::min(count - done, width - w);
      const std::byte* from =
          source_ + size_ * (plane_offset(layout_, k / layout_.plane_size()) +
                             within / (width * height) * layout_.stride[0] +
                             within / width % height * layout_.stride[1] + w * layout_.stride[2]);
      for (std::int64_t i = 0; i < some; ++i, from += size_ * layout_.stride[2]) {
        std::memcpy(to + (done + i) * size_, from, size_);
      }
      done += some;
    }
  }

 private:
  static constexpr std::int64_t kTaskElements = 1 << 15;

  bool gather(std::int64_t k) noexcept {
    const std::int64_t plane_size = layout_.plane_size();
    const std::int64_t tile = planes_per_tile(layout_, size_);
    const std::int64_t plane = k / plane_size / tile * tile;
    const std::int64_t planes = std::min(tile, layout_.planes() - plane);
    tile_ = workspace().tile.get<std::byte>(tile * plane_size * size_);
    if (tile_ == nullptr) return false;
    gather_planes(layout_, size_, source_, plane, planes, tile_);
    tile_begin_ = plane * plane_size;
    tile_end_ = tile_begin_ + planes * plane_size;
    return true;
  }

  const PlaneLayout& layout_;
  std::int64_t size_;
  const std::byte* source_;
  bool contiguous_;
  std::byte* tile_ = nullptr;
  std::int64_t tile_begin_ = 0;
  std::int64_t tile_end_ = 0;
};

}  // namespace cinch::codecs::cpu
