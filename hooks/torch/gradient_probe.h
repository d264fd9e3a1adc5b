// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/record_function.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/function.h>

#include "policy/look.h"

namespace cinch::hooks {

struct Entry;

/// What compression does to an operator's gradients: before backward runs a node that reads a
/// watched entry, the node is run twice for measurement, once with the decoded values and once with
/// the exact ones. Only nodes of PyTorch's generated formulas, which have no other effect than
/// their result; a step in which nothing is watched costs nothing.

/// One such run, as the stash sees it: which values to give, and who asked for them.
struct GradientProbe {
  enum class Purpose : std::uint8_t {
    guard,  ///< read: entries that the guard watches
    trial,  ///< read: entries that are tried; `replaced` is given another value
    peek,   ///< read: whatever is read; nothing is decoded, and zeros are given
  };
  bool exact = false;
  std::vector<Entry*> read;
  Purpose purpose = Purpose::guard;
  Entry* replaced = nullptr;
  c10::Storage replacement = {};
};

/// Makes `probe` the one that is under way on this thread.
class ProbeScope {
 public:
  explicit ProbeScope(GradientProbe& probe) noexcept;
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;
  ~ProbeScope();
};

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

/// The run that is under way on this thread; null in ordinary backwards.
GradientProbe* current_probe() noexcept;

/// Registers the observer of backward's nodes, switched off. @pre called once
void observe_backward();

/// Switches it on or off; nothing when observe_backward was not called.
void probe_gradients(bool on) noexcept;

}  // namespace cinch::hooks
