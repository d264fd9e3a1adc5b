// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/node_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/WrapDimUtils.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

/// Mean and reciprocal deviation of each channel, or of each sample's group of channels.
struct ChannelStatistics {
  std::vector<float> means;
  std::vector<float> rstds;

  bool copy(SavedVariable& mean, SavedVariable& rstd, std::int64_t count) {
    return saved_constants::copy_saved(mean, count, means) &&
           saved_constants::copy_saved(rstd, count, rstds);
  }
};

/// Recipe::Step::is_neutral
bool are_neutral(const std::vector<float>& weights, const std::vector<float>& biases) {
  const auto is = [](float wanted) { return [wanted](float each) { return each == wanted; }; };
  return std::ranges::all_of(weights, is(1)) && std::ranges::all_of(biases, is(0));
}

std::optional<Recipe::Step> channel_norm_step(const Node& node, SavedVariable& weight,
                                              const ChannelStatistics& statistics,
                                              const codecs::ChannelOrder& order) {
  std::vector<float> weights;
  std::vector<float> biases;
  const bool has_weight = saved_constants::has_data(weight);
  if (!saved_constants::copy_factors(weight, order.channels, 1, weights)) return std::nullopt;
  if (!saved_constants::copy_bias(node.next_edge(2), has_weight, order.channels, biases)) {
    return std::nullopt;
  }
  Recipe::Step made = step_of(Recipe::Operator::channel_norm, node);
  made.order = order;
  made.is_neutral = are_neutral(weights, biases);
  const std::int64_t all = order.channels * order.tables;
  const auto count = static_cast<std::int64_t>(statistics.means.size());
  made.scale.resize(static_cast<std::size_t>(all));
  made.shift.resize(static_cast<std::size_t>(all));
  for (std::int64_t k = 0; k < all; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const auto c = static_cast<std::size_t>(k % order.channels);
    const auto s = static_cast<std::size_t>(k * count / all);
    made.scale[i] = statistics.rstds[s] * weights[c];
    made.shift[i] = std::fma(-statistics.means[s], made.scale[i], biases[c]);
  }
  return made;
}

}  // namespace

Recipe::Step step_of(Recipe::Operator op, const Node& node) {
  Recipe::Step made;
  made.op = op;
  made.type = type_of(node);
  return made;
}

std::optional<Recipe::Step> roll_step(const generated::RollBackward0& node, const Layout& want) {
  const auto rank = static_cast<std::int64_t>(want.sizes.size());
  if (node.dims.size() != node.shifts.size() || node.dims.empty()) return std::nullopt;
  Recipe::Step made = step_of(Recipe::Operator::roll, node);
  made.shifts.resize(want.sizes.size(), 0);
  for (std::size_t i = 0; i < node.dims.size(); ++i) {
    const auto shift = node.shifts[i].maybe_as_int();
    const auto dim = static_cast<std::size_t>(at::maybe_wrap_dim(node.dims[i], rank));
    const std::int64_t size = want.sizes[dim];
    if (!shift || size == 0) return std::nullopt;
    made.shifts[dim] = ((made.shifts[dim] + *shift) % size + size) % size;
  }
  return made;
}

std::optional<SavedNorm> row_norm_step(Node& node, const Layout& want, c10::Device device) {
  SavedNorm made{.step = step_of(Recipe::Operator::row_norm, node)};
  SavedVariable* weight = nullptr;
  SavedVariable* bias = nullptr;
  std::int64_t row = 1;
  const auto take = [&](auto& norm, SavedVariable& rstd) {
    made.input = &norm.input_;
    made.rstd = &rstd;
    weight = &norm.weight_;
    for (const auto& size : norm.normalized_shape) {
      row *= c10::SymInt(size).maybe_as_int().value_or(0);
    }
  };
  if (kind_of(node) == NodeKind::rms_norm) {
    if (device.is_cpu()) return std::nullopt;
    auto& norm = static_cast<generated::FusedRmsNormBackward0&>(node);
    take(norm, norm.result1_);
  } else {
    auto& norm = static_cast<generated::NativeLayerNormBackward0&>(node);
    take(norm, norm.result2_);
    made.mean = &norm.result1_;
    bias = &norm.bias_;
  }
  if (row <= 0 || row > saved_constants::most || !is_contiguous(want)) return std::nullopt;
  Recipe::Step& step = made.step;
  step.row = row;
  step.rows = want.elements() / row;
  const bool found =
      device.is_cpu()
          ? saved_constants::copy_factors(*weight, row, 1, step.scale) &&
                saved_constants::copy_factors(*bias, row, 0, step.shift)
          : saved_constants::find_factors(*weight, row, device, step.weight) &&
                (bias == nullptr || saved_constants::find_factors(*bias, row, device, step.bias));
  if (!found) return std::nullopt;
  step.is_neutral = device.is_cpu() && are_neutral(step.scale, step.shift);
  return made;
}

std::optional<Recipe::Step> batch_norm_step(generated::NativeBatchNormBackward0& node,
                                            const Layout& want, bool keeps_statistics) {
  const auto order = channel_order(want, 1);
  if (!order || order->channels > saved_constants::most) return std::nullopt;
  ChannelStatistics statistics;
  if (node.training) {
    if (!statistics.copy(node.result1_, node.result2_, order->channels)) return std::nullopt;
  } else {
    if (!statistics.copy(node.running_mean_, node.running_var_, order->channels)) {
      return std::nullopt;
    }
    const auto epsilon = static_cast<float>(node.eps);
    for (float& each : statistics.rstds) each = 1 / std::sqrt(each + epsilon);
  }
  auto made = channel_norm_step(node, node.weight_, statistics, *order);
  if (!made || !keeps_statistics) return made;
  made->means = std::move(statistics.means);
  for (float& each : statistics.rstds) each = 1 / each;
  made->deviations = std::move(statistics.rstds);
  return made;
}

bool has_few_factors(const Layout& want, const codecs::ChannelOrder& order) {
  constexpr std::int64_t least_elements_a_factor = 64;
  return want.elements() >= least_elements_a_factor * order.tables * order.channels;
}

std::optional<Recipe::Step> group_norm_step(generated::NativeGroupNormBackward0& node,
                                            const Layout& want) {
  if (want.sizes.empty()) return std::nullopt;
  const std::int64_t samples = want.sizes[0];
  const auto order = channel_order(want, samples);
  if (!order || node.group <= 0) return std::nullopt;
  if (!has_few_factors(want, *order)) return std::nullopt;
  ChannelStatistics statistics;
  if (!statistics.copy(node.result1_, node.result2_, node.group * samples)) return std::nullopt;
  return channel_norm_step(node, node.weight_, statistics, *order);
}

}  // namespace cinch::hooks
