// SPDX-License-Identifier: Apache-2.0
#include "codecs/layout.h"

#include <limits>

namespace cinch::codecs {

bool is_valid(const PlaneLayout& layout) noexcept {
  constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max();
  std::int64_t elements = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t extent = layout.extent[axis];
    if (extent < 1 || extent > kMaxExtent || layout.stride[axis] < 0) return false;
    if (__builtin_mul_overflow(elements, extent, &elements)) return false;
  }
  if (layout.outer < 0 || layout.inner < 0) return false;
  if (layout.outer_stride < 0 || layout.inner_stride < 0) return false;
  if (__builtin_mul_overflow(elements, layout.inner, &elements)) return false;
  if (__builtin_mul_overflow(elements, layout.outer, &elements)) return false;
  // Bit positions are counted in 64 bits too, at up to 8 bits an element and 16 bits a mean.
  return elements <= std::numeric_limits<std::int64_t>::max() / 128;
}

bool has_dense_planes(const PlaneLayout& layout) noexcept {
  PlaneLayout plane = layout;
  plane.outer = 1;
  plane.inner = 1;
  return plane.is_contiguous();
}

PlaneLayout with_outer_planes(PlaneLayout layout) noexcept {
  if (layout.outer != 1 || layout.inner == 1) return layout;
  layout.outer = layout.inner;
  layout.outer_stride = layout.inner_stride;
  layout.inner = 1;
  return layout;
}

bool interleaves_groups(const PlaneLayout& of, std::int64_t group) noexcept {
  const PlaneLayout layout = with_outer_planes(of);
  const auto& [features, one, rows] = layout.extent;
  return features > 1 && one == 1 && rows == group && layout.inner == 1 && layout.stride[0] == 1 &&
         layout.stride[2] == features &&
         (layout.outer == 1 || layout.outer_stride == layout.plane_size());
}

std::int64_t reach(const PlaneLayout& layout) noexcept {
  if (layout.planes() == 0) return 0;
  std::int64_t last =
      (layout.outer - 1) * layout.outer_stride + (layout.inner - 1) * layout.inner_stride;
  for (int axis = 0; axis < 3; ++axis) last += (layout.extent[axis] - 1) * layout.stride[axis];
  return last + 1;
}

}  // namespace cinch::codecs
