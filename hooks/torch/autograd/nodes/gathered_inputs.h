// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace cinch::hooks {

/// What an index picks rows of. Autograd saves the index alone: a gradient needs no values. Each
/// thread knows the inputs of its latest operators, and does not keep them alive.
namespace gathered_inputs {

/// Notes that the operator which has just made `result` picked it out of `input`. Nothing is noted
/// where no node made `input`: that is the program's.
void note(const at::Tensor& result, const at::Tensor& input) noexcept;

/// The input of a node that this thread has made lately, with the values that it had then;
/// undefined: it is not known, or gone.
at::Tensor find(const torch::autograd::Node& node);

}  // namespace gathered_inputs
}  // namespace cinch::hooks
