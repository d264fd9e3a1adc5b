// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeindex>
#include <unordered_map>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {

/// One of PyTorch's operators of a single tensor, as its node knows it.
struct Function {
  using Saved = torch::autograd::SavedVariable* (*)(torch::autograd::Node&);

  Saved operand = nullptr;  ///< where the node saves the operand that backward reads; null: nowhere
  Saved result = nullptr;   ///< likewise, of its result
  bool resizes = false;     ///< whether operand and result differ in sizes
  /// Makes a step of Recipe::Operator::function one of this operator, with the node's parameters.
  /// @return false where a recipe can't have it @pre the node is locked
  bool (*describe)(torch::autograd::Node& node, Recipe::Step& step) = nullptr;
};

/// All of them, by the type of their nodes.
const std::unordered_map<std::type_index, Function>& functions();

}  // namespace cinch::hooks
