// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

/// Eigenvectors and singular vectors. The backward of what makes them divides by the differences
/// of eigenvalues or singular values, which magnifies the errors of its gradients; and it refuses
/// gradients by which a complex vector's phase matters, as errors make it seem.
namespace cinch::hooks::decompositions {

/// Notes that such an operator saves `result`, if it does: from then on operators' tensors are
/// recorded. Looks up the type of a node, no more.
void note_result(const at::Tensor& result);

/// Whether the operator that saves `operand` takes vectors, or what few operators have made of
/// them: an error of anything that it saves is then one of their gradients. Where its tensors are
/// not recorded, `operand` alone is looked at; before any result was noted, nothing.
bool reach(const at::Tensor& operand);

}  // namespace cinch::hooks::decompositions
