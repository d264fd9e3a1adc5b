// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/node_runs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <utility>

#include <ATen/ops/norm.h>
#include <ATen/ops/sub.h>

#include "hooks/torch/program/parameter.h"
#include "hooks/torch/program/users_hooks.h"

namespace cinch::hooks {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

struct Difference {
  double error = 0;  // ||a - e||
  double size = 0;   // ||e||
};

std::optional<Difference> difference(const at::Tensor& a, const at::Tensor& e) {
  const bool has_norm = a.defined() && e.defined() && (e.is_floating_point() || e.is_complex());
  if (!has_norm || e.layout() != at::kStrided) return std::nullopt;
  return Difference{at::norm(at::sub(a, e)).item().toDouble(), at::norm(e).item().toDouble()};
}

}  // namespace

// Generated are the classes of torch/csrc/autograd/generated.
bool may_run_again(const Node& node) {
  return std::string_view(typeid(node).name()).find("9generated") != std::string_view::npos &&
         !may_call_users_hooks(node);
}

variable_list gradients_of(const at::RecordFunction& function) {
  variable_list gradients;
  for (const c10::IValue& input : function.inputs()) {
    gradients.push_back(input.isTensor() ? input.toTensor() : at::Tensor());
  }
  return gradients;
}

variable_list run_node(Node& node, variable_list gradients, GradientProbe& how) {
  const ProbeScope scope(how);
  return node(std::move(gradients));
}

variable_list run_node(Node& node, const at::RecordFunction& function, GradientProbe& how) {
  return run_node(node, gradients_of(function), how);
}

double worst_difference_squared(const variable_list& approximate, const variable_list& exact) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(approximate.size(), exact.size()); ++i) {
    const auto one = difference(approximate[i], exact[i]);
    if (one && one->size > 0) worst = std::max(worst, one->error / one->size);
  }
  return worst * worst;
}

policy::Look::Trial errors_of_results(const Node& node, const variable_list& approximate,
                                      const variable_list& exact, double& own_gradient) {
  policy::Look::Trial trial{0, 0, 0};
  own_gradient = 0;
  double own_error = 0;
  double passed_gradient = 0;
  double passed_error = 0;
  const std::size_t results =
      std::min({approximate.size(), exact.size(), std::size_t{node.num_outputs()}});
  for (std::size_t i = 0; i < results; ++i) {
    const auto one = difference(approximate[i], exact[i]);
    if (!one) continue;
    if (parameter_behind(node.next_edge(i)) != nullptr) {
      own_error += one->error * one->error;
      own_gradient += one->size * one->size;
    } else if (one->size > 0) {
      const double relative = one->error / one->size;
      trial.passed_worst = std::max(trial.passed_worst, relative * relative);
      passed_error += one->error * one->error;
      passed_gradient += one->size * one->size;
    }
  }
  if (own_gradient > 0) trial.own = own_error / own_gradient;
  if (passed_gradient > 0) trial.passed = passed_error / passed_gradient;
  return trial;
}

}  // namespace cinch::hooks
