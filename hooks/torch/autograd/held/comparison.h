// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// How the elements of two tensors compare, which is all that the backward of some operators asks
/// of what it saved: of `maximum`'s operands which is larger, of `amax`'s input which elements
/// equal the result. One byte an element, which the stash encodes without loss in one or two bits.
/// Gives values that compare alike.
class Comparison {
 public:
  enum class Of : std::uint8_t {
    equality,  ///< whether they are equal, which a NaN never is
    sameness,  ///< the same, but that two NaN are
    order      ///< also which is larger; a NaN is neither
  };

  /// Computes how `a` and `b`, which broadcast, compare, and has the stash hold that.
  /// @param a_is_left Whether backward has `a` on the left of `==`, by which strides, and so the
  ///   order of sums, are chosen from there on
  /// @param like How `a` was saved @throws std::exception when there is no memory
  Comparison(const at::Tensor& a, const at::Tensor& b, Of of, bool a_is_left, const Use& like);
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;
  ~Comparison();

  /// Values of this type that compare with `b`, which has no NaN where it is not the one of the
  /// constructor, as `a` did with that one. @pre of order, or `b` is 1
  at::Tensor values(c10::ScalarType type, const at::Tensor& b) const;

 private:
  Use use_;
  Entry* entry_;
};

}  // namespace cinch::hooks
