// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "policy/layer.h"

namespace cinch::hooks {

/// What the papers' formulas need of a backward node, read off PyTorch's generated classes.
struct NodeFacts {
  policy::LayerKind kind = policy::LayerKind::other;
  const torch::autograd::SavedVariable* input = nullptr;  ///< the activation that it reads
  const torch::autograd::SavedVariable* weight = nullptr;
  const torch::autograd::SavedVariable* mean = nullptr;           ///< layer norm: an output
  const torch::autograd::SavedVariable* inverse_sigma = nullptr;  ///< norms: an output
  int weight_edge = -1;  ///< which of the node's results is the weight's gradient
  bool training = true;  ///< batch norm
  double stride = 1;     ///< convolution: product
  double groups = 1;     ///< convolution
};

/// Nothing for nodes of no formula.
std::optional<NodeFacts> node_facts(const torch::autograd::Node& node);

}  // namespace cinch::hooks
