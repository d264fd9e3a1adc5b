// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/exact_backward.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include "hooks/torch/gradients/callback_time.h"
#include "hooks/torch/gradients/node_runs.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/node_callback.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// The exact gradients that a node got so far.
struct Incoming {
  variable_list sums;     ///< by input; undefined: nothing yet
  bool is_known = true;   ///< false: `sums` lacks some
  bool is_traced = true;  ///< false: some error was made before a node that may not run twice
};

NodeCallback& backward_callback = *new NodeCallback;
std::mutex& exact_mutex = *new std::mutex;
// By backward and receiving node, which the graph keeps alive until it runs; under its lock.
auto& incoming = *new std::map<std::pair<int, const Node*>, Incoming>;
// The last exact gradient of each parameter; under its lock.
auto& last_gradients = *new std::unordered_map<const c10::TensorImpl*, at::Tensor>;

constexpr int no_backward = -1;
/// The backward in which this thread started a node that may not run twice, until it starts the
/// next one of that backward. Another backward that begins meanwhile is that node's own, such as a
/// checkpoint's.
thread_local int opaque_in = no_backward;

Incoming take_incoming(const Node& node) {
  const std::lock_guard lock(exact_mutex);
  const int backward = torch::autograd::get_current_graph_task_id();
  if (opaque_in == backward) opaque_in = no_backward;
  const auto found = incoming.find({backward, &node});
  if (found == incoming.end()) {  // a root of backward
    Incoming root;
    root.is_traced = opaque_in == no_backward;
    return root;
  }
  Incoming taken = std::move(found->second);
  incoming.erase(found);
  return taken;
}

/// The node's exact inputs; where they are not known those that the program gets, `inputs`.
variable_list exact_inputs(Incoming& from, variable_list inputs) {
  if (!from.is_known) return inputs;
  for (std::size_t i = 0; i < std::min(inputs.size(), from.sums.size()); ++i) {
    if (from.sums[i].defined()) inputs[i] = std::move(from.sums[i]);
  }
  return inputs;
}

/// The node's exact results; nothing where it may not run twice.
std::optional<variable_list> exact_results(Node& node, variable_list inputs) {
  const bool changes_results = !node.post_hooks().empty();
  if (!may_run_again(node) || at::GradMode::is_enabled() || changes_results) return std::nullopt;
  GradientProbe exact;
  exact.exact = true;
  variable_list results = run_node(node, std::move(inputs), exact);
  // As the engine does: sums over what was broadcast, and casts.
  torch::autograd::validate_outputs(node.next_edges(), results,
                                    [](const std::string& message) { return message; });
  return results;
}

void pass_on(const Node& node, const std::optional<variable_list>& results, bool is_traced) {
  const std::lock_guard lock(exact_mutex);
  for (std::size_t i = 0; i < node.num_outputs(); ++i) {
    const auto& edge = node.next_edge(i);
    if (!edge.is_valid()) continue;
    Incoming& at = incoming[{torch::autograd::get_current_graph_task_id(), edge.function.get()}];
    at.is_traced = at.is_traced && is_traced && results.has_value();
    at.is_known = at.is_known && results.has_value();
    if (!results || !(*results)[i].defined()) continue;
    if (at.sums.size() <= edge.input_nr) at.sums.resize(edge.input_nr + 1);
    at::Tensor& sum = at.sums[edge.input_nr];
    sum = sum.defined() ? at::add(sum, (*results)[i]) : (*results)[i];
  }
}

double squared(const at::Tensor& x) {
  const bool is_wide = x.is_complex() || x.scalar_type() == at::kDouble;
  const double norm = at::norm(is_wide ? x : x.to(at::kFloat)).item().toDouble();
  return norm * norm;
}

void note_gradient(const AccumulateGrad& node, const at::Tensor& given, const at::Tensor& exact,
                   bool is_traced) {
  if (!given.defined() || !exact.defined()) return;
  const c10::TensorImpl* parameter = node.variable.unsafeGetTensorImpl();
  MeasuredGradient found;
  found.elements = static_cast<std::uint64_t>(node.variable.numel());
  found.is_weight = node.variable.dim() > 1;
  const bool is_dense = given.layout() == at::kStrided && exact.layout() == at::kStrided;
  found.is_traced = is_traced && is_dense;
  if (is_dense) {
    found.size = squared(exact);
    found.error = squared(at::sub(given, exact));
    at::Tensor last = exact.clone();  // the program may change its own
    {
      const std::lock_guard lock(exact_mutex);
      std::swap(last, last_gradients[parameter]);
    }
    if (last.defined() && last.sizes() == exact.sizes()) {
      found.change = squared(at::sub(exact, last));
    }
  }
  stash().appraisal()->saw_gradient(parameter, found);
}

void compare(const at::RecordFunction& function) {
  if (current_probe() != nullptr || stash().appraisal() == nullptr) return;
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr || node->sequence_nr() != static_cast<std::uint64_t>(function.seqNr()))
    return;
  const CallbackTime time(CallbackTime::Purpose::guard);
  const at::DisableRecordFunctionGuard unobserved;
  Incoming from = take_incoming(*node);
  // The program's hooks have changed what the node gets.
  if (!node->tensor_pre_hooks().empty() || !node->pre_hooks().empty()) {
    from.is_known = from.is_traced = false;
  }
  const variable_list given = gradients_of(function);
  variable_list inputs = exact_inputs(from, given);
  if (const auto* accumulate = dynamic_cast<const AccumulateGrad*>(node.get())) {
    if (!given.empty()) note_gradient(*accumulate, given[0], inputs[0], from.is_traced);
    return;
  }
  std::optional<variable_list> results;
  try {
    results = exact_results(*node, std::move(inputs));
  } catch (const std::exception&) {
    // Such as no memory: the nodes before it take what the program gets.
  }
  if (!results) opaque_in = torch::autograd::get_current_graph_task_id();
  pass_on(*node, results, from.is_traced);
}

}  // namespace

void observe_exact_backward() {
  register_fork_lock(exact_mutex);
  backward_callback.install<compare>();
}

void compare_backwards(bool on) noexcept {
  std::map<std::pair<int, const Node*>, Incoming> unused;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> old;
  {
    const std::lock_guard lock(exact_mutex);
    unused.swap(incoming);
    if (!on) old.swap(last_gradients);
  }
  opaque_in = no_backward;
  backward_callback.switch_to(on);
}

}  // namespace cinch::hooks
