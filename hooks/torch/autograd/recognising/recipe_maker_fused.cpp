// SPDX-License-Identifier: Apache-2.0
//
// The operators that PyTorch computes by one kernel: norms, attention and dropout.
#include <utility>
#include <vector>

#include "hooks/torch/autograd/nodes/node_lock.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/recipe_maker.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using saved_constants::has_data;

}  // namespace

bool RecipeMaker::make_log_sum_exp(Node& node) {
  last_ = &node;
  return make_attention(node, AttentionPart::log_sum_exp, layout_, recipe_->value);
}

/// Builds a part of fused attention from the query, key, value and mask that the node saved. It is
/// the one recipe whose time counts, so it is no part of a longer one.
bool RecipeMaker::make_attention(Node& node, AttentionPart part, const Layout& want, Value& to) {
  if (&node != last_ || !stash().settings().derive.attention) return false;
  const NodeLock lock(node);
  if (!lock) return false;
  auto saved = attention_step(node);
  if (!saved) return false;
  std::vector<Value>& others = saved->step.others;
  others.resize(2);
  if (!sources_.hold_value(*saved->query, to) || !sources_.hold_value(*saved->key, others[0]) ||
      !sources_.hold_value(*saved->value, others[1])) {
    return false;
  }
  if (saved->mask != nullptr && has_data(*saved->mask)) {
    // A copy of a mask on a device would not lie as its kernels want.
    Value& mask = others.emplace_back();
    const bool found =
        sources_.hold_value(*saved->mask, mask) ||
        (!is_on_device() && sources_.copy_constant(*saved->mask, type_of(node), mask));
    if (!found) return false;
  }
  saved->step.part = part;
  if (part == AttentionPart::log_sum_exp) saved->step.type = recipe_->type;
  return extend(to, std::move(saved->step), want);
}

/// Builds dropout's output from the mask that the node saved, and what leads to it.
bool RecipeMaker::make_dropout(generated::NativeDropoutBackward0& node, const Layout& want,
                               Value& to) {
  auto made = dropout_step(node);
  if (!made || !find_alike(node.next_edge(0), want, to) || to.type() != made->type) return false;
  const NodeLock lock(node);
  return lock && sources_.hold_flags(node.result1_, want, made->others.emplace_back()) &&
         extend(to, std::move(made), want);
}

bool RecipeMaker::make_norm(Node& node, const Layout& want, Value& to) {
  const NodeLock lock(node);
  if (!lock) return false;
  const NodeKind kind = kind_of(node);
  if (kind == NodeKind::layer_norm || kind == NodeKind::rms_norm) {
    return make_row_norm(node, want, to);
  }
  if (is_on_device()) return make_norm_on_device(node, want, to);
  switch (kind) {
    case NodeKind::batch_norm: {
      auto& norm = static_cast<generated::NativeBatchNormBackward0&>(node);
      // Only the ReLU behind it gives its source sides (Derivation::tell_sources).
      const bool gives_sides = stash().settings().derive.signs_in_sources && steps_ == 2 &&
                               kind_of(*last_) == NodeKind::relu;
      return sources_.hold_alike(norm.input_, want, to) &&
             extend(to, batch_norm_step(norm, want, gives_sides), want);
    }
    case NodeKind::group_norm: {
      auto& norm = static_cast<generated::NativeGroupNormBackward0&>(node);
      return sources_.hold_alike(norm.input_, want, to) &&
             extend(to, group_norm_step(norm, want), want);
    }
    default:
      return false;
  }
}

/// A batch or group norm. @pre the node is locked
bool RecipeMaker::make_norm_on_device(Node& node, const Layout& want, Value& to) {
  auto norm = channel_norm_step_on(recipe_->device, node, want);
  if (!norm || !sources_.hold_alike(*norm->input, want, to)) return false;
  Step& made = norm->step;
  const bool is_complete =
      made.mean.held.defined() || (sources_.hold_statistic(*norm->mean, made.rows, made.mean) &&
                                   sources_.hold_statistic(*norm->rstd, made.rows, made.rstd));
  // cuDNN rounds otherwise, but that does not show while all weights are 1 and all biases 0.
  recipe_->is_near |= kind_of(node) == NodeKind::cudnn_batch_norm;
  return is_complete && extend(to, std::move(made), want);
}

/// A layer or RMS norm. @pre the node is locked
bool RecipeMaker::make_row_norm(Node& node, const Layout& want, Value& to) {
  auto norm = row_norm_step(node, want, recipe_->device);
  // The operator makes its input contiguous first.
  if (!norm || !sources_.hold_value(*norm->input, to) || to.start.sizes != want.sizes) return false;
  Step& made = norm->step;
  const bool has_mean =
      norm->mean == nullptr || sources_.hold_statistic(*norm->mean, made.rows, made.mean);
  return has_mean && sources_.hold_statistic(*norm->rstd, made.rows, made.rstd) &&
         extend(to, std::move(made), want);
}

}  // namespace cinch::hooks
