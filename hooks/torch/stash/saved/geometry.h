// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/TensorBase.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>
#include <c10/util/SmallVector.h>

namespace cinch::hooks {

/// Sizes, strides and offset (in elements) of a tensor in its storage. Every saved tensor has one,
/// so it is kept small: the strides of a contiguous tensor are left out.
class Geometry {
 public:
  Geometry() = default;
  explicit Geometry(const at::TensorBase& tensor);
  Geometry(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset);

  c10::IntArrayRef sizes() const { return c10::IntArrayRef(words_).slice(0, rank()); }
  c10::DimVector strides() const;
  std::int64_t offset() const noexcept { return offset_; }

  /// Sizes and, unless contiguous, strides. For tensors of one rank, equal words mean equal
  /// geometries but for the offset.
  c10::IntArrayRef words() const { return words_; }
  std::size_t rank() const noexcept { return contiguous_ ? words_.size() : words_.size() / 2; }

 private:
  c10::SmallVector<std::int64_t, 4> words_;
  std::int64_t offset_ = 0;
  bool contiguous_ = true;
};

}  // namespace cinch::hooks
