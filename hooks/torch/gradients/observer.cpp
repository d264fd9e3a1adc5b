// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/observer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "hooks/torch/gradients/callback_time.h"
#include "hooks/torch/gradients/moving_average.h"
#include "hooks/torch/gradients/node_runs.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/autograd_node.h"
#include "hooks/torch/program/node_callback.h"
#include "hooks/torch/program/node_facts.h"
#include "hooks/torch/program/parameter.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using policy::LayerKind;
using policy::Look;
using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A look that waits for its weight's gradient. Keeps the entry's class alive, not the entry.
struct Waiting {
  std::shared_ptr<EntryClass> entry_class;
  std::uint32_t member = 0;
  Look look;
};

/// A gradient that was passed to a node, where others may be added to it.
struct Passed {
  std::shared_ptr<EntryClass> entry_class;
  std::uint32_t member = 0;
  double squared = 0;
};

NodeCallback& look_callback = *new NodeCallback;
std::mutex& mutex = *new std::mutex;
// By parameter, as the averages are; under mutex.
auto& waiting = *new std::unordered_map<const c10::TensorImpl*, std::vector<Waiting>>;
// By receiving node, which the graph keeps alive until it runs; under mutex.
auto& passed_on = *new std::unordered_map<const Node*, std::vector<Passed>>;
auto& averages = *new std::unordered_map<const c10::TensorImpl*, MovingAverage>;

/// The entry of the tensor in `saved`; null if the stash does not hold it.
/// @param sizes Set to the saved tensor's sizes.
Entry* entry_behind(const SavedVariable& saved, std::vector<std::int64_t>* sizes = nullptr) {
  GradientProbe probe;
  probe.purpose = GradientProbe::Purpose::peek;
  const ProbeScope scope(probe);
  const at::Tensor shape_only = saved.unpack();
  if (sizes != nullptr) *sizes = shape_only.sizes().vec();
  return probe.read.empty() ? nullptr : probe.read.front();
}

double sum_of_squares(const at::Tensor& x) {
  const bool is_wide = x.is_complex() || x.scalar_type() == at::kDouble;
  const double norm = at::norm(is_wide ? x : x.to(at::kFloat)).item().toDouble();
  return norm * norm;
}

std::vector<double> doubles(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kCPU, at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

void look_at_output(Look& look, const at::Tensor& gradient, LayerKind kind) {
  look.kind = kind;
  look.output_gradient = sum_of_squares(gradient);
  look.samples = static_cast<double>(gradient.size(0));
  look.peak_gradient = at::amax(gradient.abs().flatten(1), 1).mean().item().toDouble();
  look.outputs = static_cast<double>(gradient.size(1));
}

void look_at_batch_norm(Look& look, const NodeFacts& facts, const NodePointer& node,
                        const at::Tensor& gradient) {
  // The formula's terms are only known in training and if gamma has a gradient.
  if (!facts.training || parameter_behind(node->next_edge(1)) == nullptr) return;
  const at::Tensor weight = facts.weight->unpack();
  const at::Tensor inverse = facts.inverse_sigma->unpack(node);
  if (!weight.defined() || !inverse.defined()) return;
  const at::Tensor by_channel =
      gradient.to(at::kFloat).transpose(0, 1).reshape({gradient.size(1), -1});
  const auto gamma = doubles(weight);
  const auto inverse_sigma = doubles(inverse);
  const auto squares = doubles(by_channel.square().sum(1, false, at::kDouble));
  const auto sums = doubles(by_channel.sum(1, false, at::kDouble));
  for (std::size_t c = 0; c < squares.size(); ++c) {
    look.channels.push_back({gamma[c], inverse_sigma[c], 0, squares[c], sums[c]});
  }
}

// Computes the sums for acgc_layer_norm_bound, over the normalized rows of C features.
void look_at_layer_norm(Look& look, const NodeFacts& facts, const NodePointer& node,
                        const at::Tensor& gradient) {
  const at::Tensor x = facts.input->unpack().to(at::kFloat);
  const at::Tensor weight = facts.weight->unpack();
  const at::Tensor mean = facts.mean->unpack(node).to(at::kFloat);
  const at::Tensor inverse = facts.inverse_sigma->unpack(node).to(at::kFloat);
  at::Tensor z = gradient.to(at::kFloat);
  if (weight.defined()) z = z * weight.to(at::kFloat);
  const std::int64_t rows = inverse.numel();
  const std::int64_t features = x.numel() / rows;
  z = z.reshape({rows, features});
  const at::Tensor s = inverse.reshape({rows, 1});
  const at::Tensor normalized = (x.reshape({rows, features}) - mean.reshape({rows, 1})) * s;
  const at::Tensor dot = (z * normalized).sum(1, true);
  const at::Tensor squares = z.square().sum(1, true);
  const at::Tensor total = z.sum(1, true);
  const at::Tensor s2 = s.square();
  const auto c = static_cast<double>(features);
  look.rows = static_cast<double>(rows);
  look.features = c;
  look.row_input_gradient =
      (s2 * (squares - total.square() / c - dot.square() / c).clamp_min(0)).sum().item().toDouble();
  look.row_sensitivity = (s2.square() * (dot.square() + 2 * squares)).sum().item().toDouble();
  look.least_variance = 1 / s2.max().item().toDouble();
}

std::uint32_t producer_of(const Node& node) {
  const Node* before = node.next_edge(0).function.get();
  if (before == nullptr || !may_run_again(*before)) return policy::no_layer;
  const auto facts = node_facts(*before);
  if (!facts || facts->kind != LayerKind::convolution) return policy::no_layer;
  const Entry* entry = entry_behind(*facts->input);
  return entry == nullptr ? policy::no_layer : stash().adaptation().layer_of(*entry);
}

/// Stores `look` until the gradient of the node's weight is accumulated, which completes it.
/// @return whether the node has such a weight; false for layer norms
bool wait_for_weight(const Entry& entry, const NodeFacts& facts, const Node& node,
                     const Look& look) {
  if (static_cast<std::size_t>(facts.weight_edge) >= node.num_outputs()) return false;
  if (facts.kind == LayerKind::layer_norm) return false;
  const c10::TensorImpl* parameter = parameter_behind(node.next_edge(facts.weight_edge));
  if (parameter == nullptr) return false;
  const std::lock_guard lock(mutex);
  waiting[parameter].push_back({entry.entry_class, entry.member, look});
  return true;
}

void look_at(const at::RecordFunction& function, const NodePointer& node,
             const policy::Wants& wants) {
  const auto facts = node_facts(*node);
  if (!facts || function.inputs().empty() || !function.inputs()[0].isTensor()) return;
  const at::Tensor gradient = function.inputs()[0].toTensor();
  if (!gradient.defined() || gradient.dim() < 2 || gradient.layout() != at::kStrided) return;
  if (gradient.is_complex()) return;  // the looks' formulas are for real numbers
  std::vector<std::int64_t> sizes;
  Entry* entry = entry_behind(*facts->input, &sizes);
  if (entry == nullptr || stash().adaptation().layer_of(*entry) == policy::no_layer) return;
  Look look;
  if (!wants.gradients) {
    look.kind = facts->kind;
    wait_for_weight(*entry, *facts, *node, std::move(look));
    return;
  }
  look_at_output(look, gradient, facts->kind);
  if (wants.ranges) look.plane_ranges = stash().exact().plane_ranges(*entry);
  const bool values = wants.values;
  switch (facts->kind) {
    case LayerKind::convolution: {
      const at::Tensor weight = facts->weight->unpack();
      if (weight.defined() && weight.dim() > 2) {
        look.kernel = static_cast<double>(weight.numel()) /
                      static_cast<double>(weight.size(0) * weight.size(1));
      }
      look.stride = facts->stride;
      look.groups = facts->groups;
      for (std::size_t i = 2; i < sizes.size(); ++i)
        look.locations *= static_cast<double>(sizes[i]);
      if (values) {
        const at::Tensor x = facts->input->unpack();
        look.nonzero = static_cast<double>(at::count_nonzero(x).item().toLong()) /
                       static_cast<double>(std::max<std::int64_t>(x.numel(), 1));
      }
      break;
    }
    case LayerKind::batch_norm:
      look_at_batch_norm(look, *facts, node, gradient);
      if (wants.ranges) look.producer = producer_of(*node);
      break;
    case LayerKind::layer_norm:
      if (values) look_at_layer_norm(look, *facts, node, gradient);
      break;
    default:
      break;
  }
  if (!wait_for_weight(*entry, *facts, *node, look))
    stash().adaptation().observe(*entry, std::move(look));
}

// A weight's gradient is accumulated: completes the looks that wait for it.
void weight_gradient(const AccumulateGrad& node, const at::Tensor& gradient,
                     const policy::Wants& wants) {
  if (!gradient.defined() || gradient.layout() != at::kStrided || gradient.is_complex()) return;
  const c10::TensorImpl* parameter = node.variable.unsafeGetTensorImpl();
  std::vector<Waiting> looks;
  double momentum = 0;
  {
    const std::lock_guard lock(mutex);
    const auto known = waiting.find(parameter);
    if (known != waiting.end()) {
      looks = std::move(known->second);
      waiting.erase(known);
    }
    if (wants.momentum) {
      MovingAverage& average = averages[parameter];
      average.add(gradient);
      // Read only if needed: reading may wait for a device.
      if (!looks.empty()) momentum = average.mean_magnitude();
    }
  }
  if (looks.empty()) return;
  const double squared = sum_of_squares(gradient);
  std::vector<double> elements;
  for (Waiting& one : looks) {
    one.look.weight_gradient = squared;
    one.look.momentum = momentum;
    if (!one.look.channels.empty()) {
      if (elements.empty()) elements = doubles(gradient);
      for (std::size_t c = 0; c < std::min(elements.size(), one.look.channels.size()); ++c) {
        one.look.channels[c].gamma_gradient = elements[c];
      }
    }
    Entry stands_for;
    stands_for.entry_class = one.entry_class;
    stands_for.member = one.member;
    stash().adaptation().observe(stands_for, std::move(one.look));
  }
}

/// The weight's gradient that the convolution or linear layer before a batch norm computes from
/// `passed`, the gradient that the norm passes on; undefined if there is no such layer. An error of
/// the norm's input is an error along the norm's output, hence along what that layer computes from
/// its own input. It changes the weight's gradient far more than its share of `passed` suggests.
at::Tensor weight_gradient_before(const Node& norm, const at::Tensor& passed) {
  const auto facts = node_facts(norm);
  if (!facts || facts->kind != LayerKind::batch_norm || !passed.defined()) return {};
  const auto& before = norm.next_edge(0);
  if (!before.is_valid() || before.function->num_inputs() != 1 ||
      !may_run_again(*before.function)) {
    return {};
  }
  const auto layer = node_facts(*before.function);
  if (!layer || static_cast<std::size_t>(layer->weight_edge) >= before.function->num_outputs() ||
      (layer->kind != LayerKind::convolution && layer->kind != LayerKind::linear)) {
    return {};
  }
  GradientProbe probe;
  probe.purpose = GradientProbe::Purpose::trial;
  probe.exact = true;
  const variable_list results = run_node(*before.function, {passed}, probe);
  return results[static_cast<std::size_t>(layer->weight_edge)];
}

/// Notes the gradient that `node`, which reads `entry`, passes to a node before it: the first of
/// its results that is no parameter's gradient.
void note_passed(const Node& node, const Entry& entry, const variable_list& results) {
  for (std::size_t i = 0; i < std::min<std::size_t>(results.size(), node.num_outputs()); ++i) {
    const auto& edge = node.next_edge(i);
    if (!results[i].defined() || !edge.is_valid() || parameter_behind(edge) != nullptr) continue;
    // A node with several inputs sums up the gradients of each separately.
    if (edge.function->num_inputs() != 1) return;
    const double squared = sum_of_squares(results[i]);
    const std::lock_guard lock(mutex);
    passed_on[edge.function.get()].push_back({entry.entry_class, entry.member, squared});
    return;
  }
}

// `gradient` is the sum of all that were passed to `node`: reports the share of each noted one.
void look_at_sum(const Node& node, const at::Tensor& gradient) {
  std::vector<Passed> parts;
  {
    const std::lock_guard lock(mutex);
    const auto known = passed_on.find(&node);
    if (known == passed_on.end()) return;
    parts = std::move(known->second);
    passed_on.erase(known);
  }
  if (!gradient.defined() || gradient.layout() != at::kStrided) return;
  const double sum = sum_of_squares(gradient);
  for (const Passed& part : parts) {
    Look look;
    if (sum > 0) look.share_of_sum = std::min(part.squared / sum, 1.0);
    Entry stands_for;
    stands_for.entry_class = part.entry_class;
    stands_for.member = part.member;
    if (look.share_of_sum > 0) stash().adaptation().observe(stands_for, std::move(look));
  }
}

// Reruns the node with each choice that is tried for its activations, and reports the errors.
void try_choices(const at::RecordFunction& function, const NodePointer& node) {
  if (!stash().adaptation().is_tried(static_cast<std::uint32_t>(node->sequence_nr()))) return;
  GradientProbe exact;
  exact.purpose = GradientProbe::Purpose::trial;
  exact.exact = true;
  const variable_list reference = run_node(*node, function, exact);
  std::vector<Entry*> entries = exact.read;
  std::ranges::sort(entries, {}, [](const Entry* e) { return e->id; });
  const auto same = std::ranges::unique(entries);
  entries.erase(same.begin(), same.end());
  const at::Tensor reference_before = entries.empty() || reference.empty()
                                          ? at::Tensor()
                                          : weight_gradient_before(*node, reference[0]);
  for (Entry* entry : entries) {
    note_passed(*node, *entry, reference);
    Look look;
    const double share = exact.exact_share(*entry);
    for (const auto& trial : stash().exact().trials(*entry, exact)) {
      GradientProbe otherwise;
      otherwise.purpose = GradientProbe::Purpose::trial;
      otherwise.exact = true;
      otherwise.mixed = exact.mixed;
      otherwise.replaced = entry;
      otherwise.replacement = trial.values;
      const variable_list results = run_node(*node, function, otherwise);
      look.trials.resize(std::max<std::size_t>(look.trials.size(), trial.index + 1));
      policy::Look::Trial& found = look.trials[trial.index];
      found = errors_of_results(*node, results, reference, look.own_gradient);
      if (reference_before.defined()) {
        const at::Tensor otherwise_before = weight_gradient_before(*node, results[0]);
        const double at_weight = worst_difference_squared({otherwise_before}, {reference_before});
        found.passed = std::max(found.passed, at_weight);
        found.passed_worst = std::max(found.passed_worst, at_weight);
      }
      // Errors of a part: those of the other values are independent of them, and alike.
      found = {found.own / share, found.passed / share, found.passed_worst / share};
    }
    if (!look.trials.empty()) stash().adaptation().observe(*entry, std::move(look));
  }
}

void observe(const at::RecordFunction& function) {
  if (current_probe() != nullptr || at::GradMode::is_enabled()) return;
  const auto current = torch::autograd::get_current_node();
  if (current == nullptr ||
      current->sequence_nr() != static_cast<std::uint64_t>(function.seqNr())) {
    return;
  }
  const CallbackTime time(CallbackTime::Purpose::adapting);
  const at::DisableRecordFunctionGuard unobserved;
  const policy::Wants wants = stash().adaptation().wants();
  if (const auto* accumulate = dynamic_cast<const AccumulateGrad*>(current.get())) {
    DryRun* const dry_run = stash().dry_run();
    if (wants.parameters && dry_run != nullptr) {
      dry_run->saw_parameter(accumulate->variable.unsafeGetTensorImpl(),
                             accumulate->variable.nbytes());
    }
    if (!function.inputs().empty() && function.inputs()[0].isTensor()) {
      weight_gradient(*accumulate, function.inputs()[0].toTensor(), wants);
    }
    return;
  }
  if (!may_run_again(*current)) return;
  if (wants.gradients || wants.weights) look_at(function, current, wants);
  if (!wants.trials) return;
  if (!function.inputs().empty() && function.inputs()[0].isTensor()) {
    look_at_sum(*current, function.inputs()[0].toTensor());
  }
  try_choices(function, current);
}

}  // namespace

void observe_nodes() {
  register_fork_lock(mutex);
  look_callback.install<observe>();
}

void observe_gradients(const policy::Wants& wants) noexcept {
  {
    const std::lock_guard lock(mutex);
    waiting.clear();
    passed_on.clear();
    if (!wants.momentum) averages.clear();
  }
  look_callback.switch_to(wants.anything());
}

}  // namespace cinch::hooks
