// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

/// Whether recipes compute values of this type.
bool has_recipes(c10::ScalarType type);

/// What a recipe is computed from: makes what autograd's nodes saved its sources and constants.
/// @pre a node whose saved variables are passed is locked
class RecipeSources {
 public:
  using SavedVariable = torch::autograd::SavedVariable;
  using Value = Recipe::Value;

  /// @param recipe Outlives this
  explicit RecipeSources(Recipe& recipe) : recipe_(recipe) {}

  /// Copies a small tensor that PyTorch keeps itself: a parameter, a factor. @param type Of the
  /// operator's result
  bool copy_constant(SavedVariable& saved, c10::ScalarType type, Value& to) const;

  /// Takes a Python number, which PyTorch keeps nowhere. @param type Of the operator's result
  bool take_number(double number, c10::ScalarType type, Value& to) const;

  /// Makes the saved value a source. The stash must hold it, on the recipe's device.
  bool hold_value(SavedVariable& saved, Value& to);
  bool hold_value(const HeldTensor& held, Value& to);
  /// Makes all of the storage a source of which `held` is a part. @param whole Fills the storage
  bool hold_whole(const HeldTensor& held, const Layout& whole, Value& to);
  /// The same as hold_value(), but only for a tensor of this layout.
  bool hold_alike(SavedVariable& saved, const Layout& want, Value& to);
  /// The same for a tensor of these sizes, however it lies.
  bool hold_of_sizes(SavedVariable& saved, c10::IntArrayRef sizes, Value& to);
  /// The same for a tensor of any type. @return the source's index
  std::optional<int> hold_alike(const HeldTensor& held, const Layout& want);
  /// Makes a saved mask of booleans of this layout a source.
  bool hold_flags(SavedVariable& saved, const Layout& want, Value& to);
  /// Makes a copy of a tensor that nobody saved a source, which all recipes share. So nothing waits
  /// for the program to let go of its own. @param site Of the derived tensor, as whose operand
  /// policies know the copy @pre a node made the tensor
  bool hold_copy(const at::Tensor& tensor, Site& site, Value& to);
  /// A norm's mean or deviation of `n` floats, which the stash need not hold.
  bool hold_statistic(SavedVariable& saved, std::int64_t n, Recipe::Statistic& to);

 private:
  bool begin_with(const HeldTensor& held, Value& to);
  std::optional<int> hold(const HeldTensor& held, const Geometry& geometry);
  int count_source(std::uint8_t depth);

  Recipe& recipe_;
};

}  // namespace cinch::hooks
