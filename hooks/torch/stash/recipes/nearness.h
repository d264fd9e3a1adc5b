// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Whether computed values differ from those that PyTorch computed by no more than another order of
/// roundings does. Each value y' may differ from its y by 2 eps |y| + 8 eps32 max|y|:
///
/// * eps is the distance from 1 to the next number of the element type, so the first summand is two
///   to four units in the last place;
/// * eps32 is that of the type that operators compute in, float32 (float64 for float64), and max|y|
///   the largest of all values. Where large operands cancel out, their roundings remain.
///
/// Another layout, operator or constant is further off. Nothing is near values that are not finite.
/// @param computed, actual Of one type, one number of elements and one dimension
/// @return a boolean without dimensions, on the tensors' device @pre BelowProgram
at::Tensor are_near(const at::Tensor& computed, const at::Tensor& actual);

}  // namespace cinch::hooks
