// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/stash/gradient_probe.h"
#include "policy/look.h"

namespace cinch::hooks {

/// Runs a node of PyTorch's generated formulas once more, for measurement: these have no other
/// effect than their result.

/// Whether `node` is of PyTorch's generated code; others may do anything, such as run Python.
bool is_generated(const torch::autograd::Node& node);

/// The gradients that come into the node whose start `function` records.
torch::autograd::variable_list gradients_of(const at::RecordFunction& function);

/// Runs the node on `gradients`. @throws whatever the node throws
torch::autograd::variable_list run_node(torch::autograd::Node& node,
                                        torch::autograd::variable_list gradients,
                                        GradientProbe& how);

/// The same on the gradients that come in. @throws whatever the node throws
torch::autograd::variable_list run_node(torch::autograd::Node& node,
                                        const at::RecordFunction& function, GradientProbe& how);

/// Squared errors of a node's results, relative to the exact ones: of the gradients of parameters,
/// taken together, and of those that it passes on, together and the worst.
/// @param own_gradient Set to the squared size of the parameters' exact ones
policy::Look::Trial errors_of_results(const torch::autograd::Node& node,
                                      const torch::autograd::variable_list& approximate,
                                      const torch::autograd::variable_list& exact,
                                      double& own_gradient);

/// The largest ||g' - g||^2 / ||g||^2 among a node's results.
double worst_difference_squared(const torch::autograd::variable_list& approximate,
                                const torch::autograd::variable_list& exact);

}  // namespace cinch::hooks
