// SPDX-License-Identifier: Apache-2.0
#include "codecs/codec.h"

namespace cinch::codecs {

std::size_t element_size(ElementType type) noexcept {
  switch (type) {
    case ElementType::float32:
      return 4;
    case ElementType::bfloat16:
    case ElementType::float16:
      return 2;
    case ElementType::boolean:
    case ElementType::uint8:
      return 1;
    case ElementType::int64:
      return 8;
    case ElementType::other:
      break;
  }
  return 0;
}

bool PlaneLayout::is_contiguous() const noexcept {
  // A stride is never walked along an extent of 1, so it may be anything there.
  std::int64_t expected = 1;
  for (int axis = 2; axis >= 0; --axis) {
    if (extent[axis] != 1 && stride[axis] != expected) return false;
    expected *= extent[axis];
  }
  if (inner != 1 && inner_stride != expected) return false;
  return outer == 1 || outer_stride == expected * inner;
}

PlaneLayout PlaneLayout::rows(std::int64_t n, std::int64_t row) noexcept {
  PlaneLayout layout;
  layout.outer = n / row;
  layout.outer_stride = row;
  layout.extent = {1, 1, row};
  return layout;
}

void serial_for(std::int64_t n, std::int64_t /*grain*/, ParallelForBody body, void* argument) {
  if (n > 0) body(argument, 0, n);
}

}  // namespace cinch::codecs
