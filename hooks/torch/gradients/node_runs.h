// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/stash/adapting/gradient_probe.h"
#include "policy/adapting/look.h"

namespace cinch::hooks {

/// Runs backward nodes once more, for measurement.

/// Whether `node` may be run, and what it saved unpacked, without another effect: it is of
/// PyTorch's generated code, and the program has no hooks on what it saved. Others may do anything,
/// such as run Python.
bool may_run_again(const torch::autograd::Node& node);

/// The incoming gradients of the node whose start `function` records.
torch::autograd::variable_list gradients_of(const at::RecordFunction& function);

/// Runs the node on `gradients`. @throws whatever the node throws
torch::autograd::variable_list run_node(torch::autograd::Node& node,
                                        torch::autograd::variable_list gradients,
                                        GradientProbe& how);

/// The same on the node's incoming gradients. @throws whatever the node throws
torch::autograd::variable_list run_node(torch::autograd::Node& node,
                                        const at::RecordFunction& function, GradientProbe& how);

/// Squared errors of a node's results, relative to the exact results: of all parameters' gradients
/// together, of all gradients that the node passes on together, and the worst of the latter.
/// @param own_gradient Set to the squared norm of the parameters' exact gradients
policy::Look::Trial errors_of_results(const torch::autograd::Node& node,
                                      const torch::autograd::variable_list& approximate,
                                      const torch::autograd::variable_list& exact,
                                      double& own_gradient);

/// The largest ||g' - g||^2 / ||g||^2 among a node's results.
double worst_difference_squared(const torch::autograd::variable_list& approximate,
                                const torch::autograd::variable_list& exact);

}  // namespace cinch::hooks
