// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

/// Eigenvectors, singular vectors, and a matrix's inverse, factors and determinant. The backward of
/// what makes them divides by differences of eigenvalues or singular values, or multiplies by the
/// inverse, which magnifies the errors of its gradients. What it gives is large, and of changing
/// signs: it cancels in what the matrix was made of, but not in errors of that. And it refuses
/// gradients by which a complex vector's phase matters, as errors make it seem.
namespace cinch::hooks::decompositions {

/// Notes that such an operator saves `result`, if it does: from then on operators' tensors are
/// recorded. Looks up the type of a node, no more. @return the node, the first time that it saves a
/// result; else null
const torch::autograd::Node* note_result(const at::Tensor& result);

/// The nodes that have made what `decomposition` takes: those of as many elements, and some before
/// them, up to layers with parameters. By the lower halves of their numbers.
std::vector<std::uint32_t> nodes_before(const torch::autograd::Node& decomposition);

/// Whether autograd.Functions of that name are such operators: linear_operator's, by which GPyTorch
/// computes. What their backward is about to read says where they are.
bool is_function(std::string_view name) noexcept;

/// Whether an error of `operand`, which an operator saves, is one of a gradient of a
/// decomposition's results (but not of eigenvalues or singular values): the operator takes these,
/// or what few operators have made of them. Where its tensors are not recorded, `operand` alone is
/// looked at; before any result was noted, nothing.
/// @param for_others Whether gradients of its other operands alone are computed of it
bool reach(const at::Tensor& operand, bool for_others);

}  // namespace cinch::hooks::decompositions
