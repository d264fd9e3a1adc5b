// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

namespace cinch::hooks {

/// Whether this thread runs a node of a backward.
inline bool runs_backward() noexcept {
  return torch::autograd::get_current_node() != nullptr;
}

/// Whether it does so for `create_graph`: the node saves what it reads and computes for a second
/// backward. Not to be asked in a pack hook, for which autograd switches gradients off.
inline bool builds_graph_in_backward() noexcept {
  // Gradients are also on while a checkpointed region is computed again, whose graph is not kept.
  return c10::GradMode::is_enabled() && runs_backward() &&
         torch::autograd::get_current_graph_task_keep_graph();
}

}  // namespace cinch::hooks
