// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/layout.h"

/// The operators of autograd's nodes as steps of recipes, without their operands. nullopt: a recipe
/// can't have this one. `want` is the layout of the result.
namespace cinch::hooks {

/// A step whose result has the type of the node's.
Recipe::Step step_of(Recipe::Operator op, const torch::autograd::Node& node);

std::optional<Recipe::Step> roll_step(const torch::autograd::generated::RollBackward0& node,
                                      const Layout& want);

/// A norm without its statistics, and where the node saved its operands.
struct SavedNorm {
  Recipe::Step step;
  torch::autograd::SavedVariable* input = nullptr;
  torch::autograd::SavedVariable* mean = nullptr;  ///< null: it takes none
  torch::autograd::SavedVariable* rstd = nullptr;
};

/// Layer norm: fma((x - mean) * rstd, weight, bias), as
/// aten/src/ATen/native/cpu/layer_norm_kernel.cpp has it; or RMS norm: x * rstd * weight
/// (cuda/layer_norm_kernel.cu there). @pre the node is locked
std::optional<SavedNorm> row_norm_step(torch::autograd::Node& node, const Layout& want,
                                       c10::Device device);

/// Batch norm: fma(x, scale, fma(-mean, scale, bias)) with scale = rstd * weight, as
/// aten/src/ATen/native/cpu/batch_norm_kernel.cpp has it. In evaluation the statistics are the
/// running ones. @param keeps_statistics Whether the step has them (Step::means) @pre the node is
/// locked
std::optional<Recipe::Step> batch_norm_step(
    torch::autograd::generated::NativeBatchNormBackward0& node, const Layout& want,
    bool keeps_statistics);

/// Whether a group norm has few factors beside its values: there is one pair of factors for each
/// sample and channel.
bool has_few_factors(const Layout& want, const codecs::ChannelOrder& order);

/// Group norm: the same with a mean and a deviation for each sample's group of channels
/// (aten/src/ATen/native/cpu/group_norm_kernel.cpp). @pre the node is locked
std::optional<Recipe::Step> group_norm_step(
    torch::autograd::generated::NativeGroupNormBackward0& node, const Layout& want);

/// A batch or group norm on a CUDA device. Of batch norm in evaluation nobody saves the deviations:
/// the step has the statistics, of its own. @pre the node is locked
std::optional<SavedNorm> channel_norm_step_on(c10::Device device, torch::autograd::Node& node,
                                              const Layout& want);

/// Fused attention without dropout, and where the node saved its operands. @pre the node is locked
struct SavedAttention {
  Recipe::Step step;
  torch::autograd::SavedVariable* query;
  torch::autograd::SavedVariable* key;
  torch::autograd::SavedVariable* value;
  torch::autograd::SavedVariable* mask;  ///< null: it takes none
  torch::autograd::SavedVariable* log_sum_exp;
};
std::optional<SavedAttention> attention_step(torch::autograd::Node& node);

/// Dropout, without its mask.
std::optional<Recipe::Step> dropout_step(
    const torch::autograd::generated::NativeDropoutBackward0& node);

}  // namespace cinch::hooks
