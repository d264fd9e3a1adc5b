// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <torch/csrc/autograd/function.h>

namespace cinch::hooks {

/// The numbers of sums and differences, such as x + 1, and those that are padded by. Autograd does
/// not save them: a gradient needs none. Each thread knows those of its latest operators.
namespace unsaved_numbers {

/// Notes the number of the operator that has just made `result`. Nothing is noted where autograd
/// knows no node for it, and where a double can't hold the number.
/// @param other The operand as PyTorch gets it: a tensor of one element, if it is a Python number
void note(const at::Tensor& result, const at::Tensor& other) noexcept;
void note(const at::Tensor& result, const c10::Scalar& number) noexcept;

/// The number of an operator that this thread has called lately; nullopt: not known.
std::optional<double> find(const torch::autograd::Node& node) noexcept;

}  // namespace unsaved_numbers
}  // namespace cinch::hooks
