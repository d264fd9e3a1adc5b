// SPDX-License-Identifier: Apache-2.0
//
// Steps of norms on CUDA devices, attention and dropout (node_steps.h).
#include <utility>

#include <ATen/ops/add.h>
#include <ATen/ops/rsqrt.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
#include "hooks/torch/program/below_program.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

/// What PyTorch's and cuDNN's batch norm have in common.
struct BatchNorm {
  SavedVariable* input;
  SavedVariable* weight;
  SavedVariable* running_mean;
  SavedVariable* running_variance;
  SavedVariable* mean;
  SavedVariable* rstd;
  double epsilon;
  bool trains;
};

BatchNorm batch_norm_of(Node& node) {
  const auto parts = [](auto& of, double epsilon) -> BatchNorm {
    return {&of.input_,   &of.weight_,  &of.running_mean_, &of.running_var_,
            &of.result1_, &of.result2_, epsilon,           of.training};
  };
  if (kind_of(node) == NodeKind::batch_norm) {
    auto& native = static_cast<generated::NativeBatchNormBackward0&>(node);
    return parts(native, native.eps);
  }
  auto& cudnn = static_cast<generated::CudnnBatchNormBackward0&>(node);
  return parts(cudnn, cudnn.epsilon);
}

/// A norm of as many means as there are channels.
std::optional<SavedNorm> norm_on_device(c10::Device device, const Node& node, SavedVariable& weight,
                                        const codecs::ChannelOrder& order) {
  SavedNorm made{.step = step_of(Recipe::Operator::channel_norm, node)};
  made.step.order = order;
  made.step.rows = order.channels;
  const bool has_weight = saved_constants::has_data(weight);
  const bool found =
      saved_constants::find_factors(weight, order.channels, device, made.step.weight) &&
      saved_constants::find_bias(node.next_edge(2), has_weight, order.channels, device,
                                 made.step.bias);
  return found ? std::optional(std::move(made)) : std::nullopt;
}

/// Copies the statistics of batch norm in evaluation, as PyTorch's CUDA kernel computes them.
bool copy_running_statistics(const BatchNorm& norm, c10::Device device, Recipe::Step& to) {
  at::Tensor mean;
  at::Tensor variance;
  const bool found =
      saved_constants::find_factors(*norm.running_mean, to.rows, device, mean) &&
      saved_constants::find_factors(*norm.running_variance, to.rows, device, variance);
  if (!found || !mean.defined() || !variance.defined()) return false;
  const BelowProgram guard;
  to.mean.held = mean.to(at::kFloat, /*non_blocking=*/true, /*copy=*/true);
  to.rstd.held = at::rsqrt(at::add(variance.to(at::kFloat), norm.epsilon));
  return true;
}

std::optional<SavedNorm> batch_norm_on(c10::Device device, Node& node, const Layout& want) {
  const BatchNorm norm = batch_norm_of(node);
  const auto order = channel_order(want, 1);
  if (!order || order->channels > saved_constants::most) return std::nullopt;
  auto made = norm_on_device(device, node, *norm.weight, *order);
  if (!made) return std::nullopt;
  made->input = norm.input;
  made->mean = norm.mean;
  made->rstd = norm.rstd;
  if (!norm.trains && !copy_running_statistics(norm, device, made->step)) return std::nullopt;
  return made;
}

std::optional<SavedNorm> group_norm_on(c10::Device device,
                                       generated::NativeGroupNormBackward0& node,
                                       const Layout& want) {
  if (want.sizes.empty() || !is_contiguous(want)) return std::nullopt;
  const auto order = channel_order(want, want.sizes[0]);
  if (!order || node.group <= 0 || !has_few_factors(want, *order)) return std::nullopt;
  auto made = norm_on_device(device, node, node.weight_, *order);
  if (!made) return std::nullopt;
  made->step.rows = node.group * order->tables;
  made->step.row = want.elements() / made->step.rows;
  made->input = &node.input_;
  made->mean = &node.result1_;
  made->rstd = &node.result2_;
  return made;
}

}  // namespace

std::optional<SavedNorm> channel_norm_step_on(c10::Device device, Node& node, const Layout& want) {
  if (kind_of(node) != NodeKind::group_norm) return batch_norm_on(device, node, want);
  return group_norm_on(device, static_cast<generated::NativeGroupNormBackward0&>(node), want);
}

std::optional<SavedAttention> attention_step(Node& node) {
  const auto made = [&](Recipe::Operator op, auto& of, SavedVariable* mask,
                        SavedVariable& log_sum_exp) -> std::optional<SavedAttention> {
    if (of.dropout_p != 0 || of.scale == 0.0) return std::nullopt;
    Recipe::Step step = step_of(op, node);
    step.causal = of.is_causal;
    step.numbers = {of.scale.value_or(0)};
    return SavedAttention{std::move(step), &of.query_, &of.key_, &of.value_, mask, &log_sum_exp};
  };
  using enum Recipe::Operator;
  switch (kind_of(node)) {
    case NodeKind::attention: {
      auto& of = static_cast<generated::ScaledDotProductFlashAttentionForCpuBackward0&>(node);
      return made(attention, of, &of.attn_mask_, of.logsumexp_);
    }
    case NodeKind::flash_attention: {
      auto& of = static_cast<generated::ScaledDotProductFlashAttentionBackward0&>(node);
      return made(flash_attention, of, nullptr, of.logsumexp_);
    }
    case NodeKind::efficient_attention: {
      auto& of = static_cast<generated::ScaledDotProductEfficientAttentionBackward0&>(node);
      return made(efficient_attention, of, &of.attn_bias_, of.log_sumexp_);
    }
    case NodeKind::cudnn_attention: {
      auto& of = static_cast<generated::ScaledDotProductCudnnAttentionBackward0&>(node);
      return made(cudnn_attention, of, &of.attn_bias_, of.logsumexp_);
    }
    default:
      return std::nullopt;
  }
}

// The factor has the roundings of aten/src/ATen/native/cuda/Dropout.cu.
std::optional<Recipe::Step> dropout_step(const generated::NativeDropoutBackward0& node) {
  if (!node.train.value_or(true) || !(node.p >= 0 && node.p < 1)) return std::nullopt;
  Recipe::Step made = step_of(Recipe::Operator::dropout, node);
  const double kept = 1 - node.p;
  made.numbers = {made.type == at::kDouble
                      ? 1 / kept
                      : static_cast<float>(1.0 / static_cast<double>(static_cast<float>(kept)))};
  return made;
}

}  // namespace cinch::hooks
