// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "policy/adapting/layer.h"

namespace cinch::hooks {

/// Facts of a backward node that the papers' formulas need, from PyTorch's generated classes.
struct NodeFacts {
  policy::LayerKind kind = policy::LayerKind::other;
  const torch::autograd::SavedVariable* input = nullptr;  ///< the activation that it reads
  const torch::autograd::SavedVariable* weight = nullptr;
  const torch::autograd::SavedVariable* mean = nullptr;           ///< layer norm: an output
  const torch::autograd::SavedVariable* inverse_sigma = nullptr;  ///< norms: an output
  int weight_edge = -1;  ///< which of the node's results is the weight's gradient
  bool training = true;  ///< batch norm
  double stride = 1;     ///< convolution: product of the strides
  double groups = 1;     ///< convolution
};

/// The facts of `node`; nullopt if no formula applies to it.
std::optional<NodeFacts> node_facts(const torch::autograd::Node& node);

}  // namespace cinch::hooks
