// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/stretches.h"

#include <algorithm>

#include "codecs/cpu/planes.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

PlaneLayout finer_planes(const PlaneLayout& layout) noexcept {
  if (layout.inner != 1 || has_dense_planes(layout)) return layout;
  PlaneLayout finer = layout;
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
  constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20;
  const std::int64_t plane_bytes = layout.plane_size() * static_cast<std::int64_t>(element_size);
  return std::clamp<std::int64_t>(kWindowBytes / plane_bytes, 1,
                                  planes_per_tile(layout, element_size));
}

StretchReader::StretchReader(const PlaneLayout& layout, std::size_t element_size,
                             const void* source, std::int64_t end, Buffer& buffer) noexcept
    : layout_(finer_planes(layout)),
      element_size_(element_size),
      source_(static_cast<const std::byte*>(source)),
      end_(end),
      buffer_(buffer),
      dense_(has_dense_planes(layout)) {
  if (!dense_) window_ = planes_per_window(layout_, element_size);
}

const std::byte* StretchReader::read(std::int64_t begin, std::int64_t count) noexcept {
  const auto element = static_cast<std::int64_t>(element_size_);
  const std::int64_t size = layout_.plane_size();
  const std::int64_t plane = begin / size;
  if (dense_) return source_ + (plane_offset(layout_, plane) + begin % size) * element;
  const std::int64_t stop = (begin + count - 1) / size + 1;
  if (plane < first_ || stop > last_) {
    first_ = plane;
    last_ = std::max(stop, std::min(plane + window_, (end_ - 1) / size + 1));
    gathered_ = buffer_.get<std::byte>((last_ - first_) * size * element);
    if (gathered_ == nullptr) {
      last_ = first_;
      return nullptr;
    }
    gather_planes(layout_, element_size_, source_, first_, last_ - first_, gathered_);
  }
  return gathered_ + (begin - first_ * size) * element;
}

}  // namespace cinch::codecs::cpu
