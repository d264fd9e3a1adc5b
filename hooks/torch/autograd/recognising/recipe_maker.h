// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/recognising/recipe_sources.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

/// Builds the recipe of one tensor, from the node that made it backwards. Where autograd does not
/// say how a computed value lay in memory, it is taken to lie as its result does: what is wrong
/// comes to light when the recipe is proved.
class RecipeMaker {
 public:
  /// What becomes of sources that are derived themselves.
  enum class Derived : std::uint8_t {
    computed,  ///< within this recipe, where they can be
    held
  };

  /// @param layout Of `actual`, the tensor, which fills its storage and outlives this
  /// @param site Where it is saved
  RecipeMaker(Layout layout, const at::Tensor& actual, Site& site, Derived derived);
  RecipeMaker(const RecipeMaker&) = delete;
  RecipeMaker& operator=(const RecipeMaker&) = delete;

  /// Builds the recipe of the output `output` of `node`. @return whether it could
  bool make(torch::autograd::Node& node, std::uint32_t output);

  /// Builds the recipe of the log-sum-exp that fused attention, `node`, saved. @return whether it
  /// could
  bool make_log_sum_exp(torch::autograd::Node& node);

  /// Hands out the recipe if it is proved to give the tensor's bits, or to be near them
  /// (nearness.h) where that may serve; else returns null. @param version Of the tensor, saved
  OfferedRecipe take(std::uint32_t version);

  /// Whether the recipe computes a source that it might hold.
  bool has_computed_derived() const noexcept { return has_computed_derived_; }

 private:
  using Node = torch::autograd::Node;
  using Edge = torch::autograd::Edge;
  using SavedVariable = torch::autograd::SavedVariable;
  using Step = Recipe::Step;
  using Operator = Recipe::Operator;
  using Value = Recipe::Value;

  // The functions that build a value into `to` return whether they could. If not, the sources that
  // they have held by then stay held until the recipe's end. `want` is the layout that
  // the value has if it is computed.

  bool compute(Node& node, const Layout& want, Value& to);
  bool find(const Edge& edge, const Layout& want, Value& to);
  bool hold_other_form(const Edge& edge, const Layout& want, Value& to, bool& is_derived);
  bool find_viewed(Node& node, std::uint32_t output, Value& to);
  bool find_of_any_sizes(const Edge& edge, const Layout& like, Value& to);
  bool find_alike(const Edge& edge, const Layout& want, Value& to);
  bool make_function(Node& node, const Layout& want, Value& to);
  bool make_pair(Node& node, Operator op, SavedVariable* left, SavedVariable* right,
                 const Layout& want, Value& to);
  bool make_operand(Node& node, std::uint32_t edge, SavedVariable* saved, const Layout& want,
                    Value& to);
  bool make_sum(Node& node, Operator op, const at::Scalar& alpha, const Layout& want, Value& to);
  bool make_with_number(Node& node, Operator op, std::optional<double> number, bool number_first,
                        const Layout& want, Value& to);
  bool make_addcmul(torch::autograd::generated::AddcmulBackward0& node, const Layout& want,
                    Value& to);

  // recipe_maker_moved.cpp

  bool make_copy(Node& node, const Layout& want, Value& to);
  bool make_rolled(torch::autograd::generated::RollBackward0& node, const Layout& want, Value& to);
  bool make_gathered(Node& node, const Layout& want, Value& to);
  bool find_gathered(Node& node, const Layout& input, std::int64_t picked, Value& to);
  bool make_cat(torch::autograd::generated::CatBackward0& node, const Layout& want, Value& to);
  bool make_stack(torch::autograd::generated::StackBackward0& node, const Layout& want, Value& to);
  template <typename Make>
  bool make_joined(Node& node, std::int64_t dim, const Layout& want, Value& to, const Make& make);
  bool make_max_pool(Node& node, SavedVariable& saved, SavedVariable& saved_indices,
                     const Layout& want, Value& to);

  // recipe_maker_fused.cpp

  bool make_attention(Node& node, AttentionPart part, const Layout& want, Value& to);
  bool make_dropout(torch::autograd::generated::NativeDropoutBackward0& node, const Layout& want,
                    Value& to);
  bool make_norm(Node& node, const Layout& want, Value& to);
  bool make_norm_on_device(Node& node, const Layout& want, Value& to);
  bool make_row_norm(Node& node, const Layout& want, Value& to);

  /// How far the recipe is, to go back to it when an attempt fails.
  struct Mark {
    std::size_t source_count;
    std::uint8_t depth;
    bool is_near;
    bool needs_exact_sources;
    int steps;
  };
  Mark mark() const;
  /// @param begun What was begun since, to be made empty
  void go_back(const Mark& to, Value& begun);

  static void take_view(View view, Value& to);

  /// Appends the step, if there is one. Its result has the layout `want`.
  bool extend(Value& to, std::optional<Step> step, const Layout& want);

  bool is_on_device() const noexcept { return !recipe_->device.is_cpu(); }

  const Layout layout_;
  const at::Tensor& actual_;
  Site& site_;
  Derived derived_;
  bool has_computed_derived_ = false;
  OfferedRecipe recipe_;
  RecipeSources sources_;       // of *recipe_, until take() hands that out
  const Node* last_ = nullptr;  // the node that made the tensor
  int steps_ = 0;
};

}  // namespace cinch::hooks
