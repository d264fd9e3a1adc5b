// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "hooks/torch/program/op_context.h"

/// Eigenvectors and singular vectors. The backward of what makes them divides by the differences
/// of eigenvalues or singular values, which magnifies the errors of its gradients; and it refuses
/// gradients by which a complex vector's phase matters, as errors make it seem.
namespace cinch::hooks::decompositions {

/// Notes that such an operator saves `result`, if it does: from then on operators' tensors are
/// recorded. Looks up the type of a node, no more.
void note_result(const at::Tensor& result);

/// Whether an operator in `frame`, which saves `operand`, takes vectors, or what few operators
/// have made of them: an error of anything that it saves is then one of their gradients.
/// @param frame Null where its tensors are not recorded: then `operand` alone is looked at
bool reach(const OperatorFrame* frame, const at::Tensor& operand);

/// Whether any were noted. If not, there is nothing to reach.
bool any() noexcept;

}  // namespace cinch::hooks::decompositions
