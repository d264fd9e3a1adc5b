// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/geometry.h"

#include <algorithm>

namespace cinch::hooks {

// In braces, so that sizes() is asked first: of a ragged tensor it throws, while strides() would
// first call the program's Python, and leave its error behind.
Geometry::Geometry(const at::TensorBase& tensor)
    : Geometry{tensor.sizes(), tensor.strides(), tensor.storage_offset()} {}

Geometry::Geometry(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset)
    : offset_(offset) {
  words_.append(sizes.begin(), sizes.end());
  // Not is_contiguous(), which lets dimensions of one element have any stride.
  std::int64_t dense = 1;
  for (std::size_t i = sizes.size(); i-- > 0; dense *= std::max<std::int64_t>(sizes[i], 1)) {
    contiguous_ = contiguous_ && strides[i] == dense;
  }
  if (!contiguous_) words_.append(strides.begin(), strides.end());
}

c10::DimVector Geometry::strides() const {
  c10::DimVector strides;
  if (!contiguous_) {
    strides.append(words_.begin() + rank(), words_.end());
    return strides;
  }
  strides.resize(rank());
  std::int64_t dense = 1;
  for (std::size_t i = rank(); i-- > 0; dense *= std::max<std::int64_t>(words_[i], 1)) {
    strides[i] = dense;
  }
  return strides;
}

}  // namespace cinch::hooks
