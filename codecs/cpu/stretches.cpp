// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/stretches.h"

#include <algorithm>
#include <cstring>

#include "codecs/cpu/planes.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

PlaneLayout finer_planes(const PlaneLayout& layout) noexcept {
  PlaneLayout finer = with_outer_planes(layout);
  if (finer.inner != 1 || has_dense_planes(layout)) return layout;
  for (int axis = 0; axis < 2; ++axis) {
    if (layout.extent[axis] == 1) continue;
    finer.inner = layout.extent[axis];
    finer.inner_stride = layout.stride[axis];
    finer.extent[axis] = 1;
    break;
  }
  return finer;
}

std::int64_t planes_per_window(const PlaneLayout& layout, std::size_t element_size) noexcept {
  // Small windows are read again from a near cache; fewer planes would leave parts of cache lines.
  constexpr std::int64_t kEnoughBytes = std::int64_t{1} << 18, kMostBytes = std::int64_t{2} << 20;
  const auto size = static_cast<std::int64_t>(element_size);
  const std::int64_t plane_bytes = layout.plane_size() * size, line = 64 / size;
  std::int64_t planes = planes_per_tile(layout, element_size);
  if (planes > line) planes = std::clamp(kEnoughBytes / plane_bytes / line * line, line, planes);
  while (planes > 1 && planes * plane_bytes > kMostBytes) planes /= 2;
  return planes;
}

StretchReader::StretchReader(const PlaneLayout& layout, std::size_t element_size,
                             const void* source, std::int64_t end, Buffer& buffer) noexcept
    : layout_(finer_planes(layout)),
      element_size_(element_size),
      source_(static_cast<const std::byte*>(source)),
      end_(end),
      buffer_(buffer),
      contiguous_(layout.is_contiguous()),
      dense_(has_dense_planes(layout)) {
  if (!dense_) window_ = planes_per_window(layout_, element_size);
}

const std::byte* StretchReader::read(std::int64_t begin, std::int64_t count) noexcept {
  const auto element = static_cast<std::int64_t>(element_size_);
  const std::int64_t size = layout_.plane_size();
  const std::int64_t plane = begin / size;
  const std::int64_t stop = (begin + count - 1) / size + 1;
  if (contiguous_ || (dense_ && stop - plane == 1)) {
    return source_ + (plane_offset(layout_, plane) + begin % size) * element;
  }
  if ((plane < first_ || stop > last_) && !gather(plane, stop)) return nullptr;
  return gathered_ + (begin - first_ * size) * element;
}

bool StretchReader::gather(std::int64_t plane, std::int64_t stop) noexcept {
  const std::int64_t plane_bytes = layout_.plane_size() * static_cast<std::int64_t>(element_size_);
  // Windows begin at multiples of their size, so that cache lines are not read twice. Planes that
  // are gathered already are kept.
  const std::int64_t planes = (end_ - 1) / layout_.plane_size() + 1;
  const std::int64_t last = std::min(planes, ((stop - 1) / window_ + 1) * window_);
  if (last - plane > room_) {
    room_ = last - plane + window_;
    gathered_ = buffer_.get<std::byte>(room_ * plane_bytes);
    last_ = first_;
    if (gathered_ == nullptr) {
      room_ = 0;
      return false;
    }
  }
  const std::int64_t kept = plane >= first_ && plane < last_ ? last_ - plane : 0;
  if (kept > 0) {
    std::memmove(gathered_, gathered_ + (plane - first_) * plane_bytes, kept * plane_bytes);
  }
  first_ = plane;
  last_ = last;
  gather_planes(layout_, element_size_, source_, plane + kept, last - plane - kept,
                gathered_ + kept * plane_bytes);
  return true;
}

}  // namespace cinch::codecs::cpu
