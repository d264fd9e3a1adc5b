// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

/// Members of autograd's classes that have no accessor.
namespace cinch::hooks::members {

std::unique_ptr<torch::autograd::SavedVariableHooks>& hooks_of(
    torch::autograd::SavedVariable& saved);
at::Tensor& data_of(torch::autograd::SavedVariable& saved);

/// Whether the tensor's version counter still has the value that it had when the tensor was saved.
/// @pre data_of(saved) is defined
bool is_as_saved(torch::autograd::SavedVariable& saved);

/// The mutex that a node holds while it computes gradients or releases its saved variables.
std::mutex& mutex_of(torch::autograd::Node& node);

}  // namespace cinch::hooks::members
