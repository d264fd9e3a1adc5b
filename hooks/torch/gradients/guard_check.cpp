// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/guard_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/gradients/callback_time.h"
#include "hooks/torch/gradients/node_runs.h"
#include "hooks/torch/program/node_callback.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using torch::autograd::variable_list;

NodeCallback& guard_callback = *new NodeCallback;

void measure(const at::RecordFunction& function) {
  const auto sequence = static_cast<std::uint64_t>(function.seqNr());
  if (current_probe() != nullptr || at::GradMode::is_enabled() ||
      !stash().looks().guard().is_watched(static_cast<std::uint32_t>(sequence))) {
    return;
  }
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr || node->sequence_nr() != sequence || !may_run_again(*node)) return;
  const CallbackTime time(CallbackTime::Purpose::guard);
  const at::DisableRecordFunctionGuard unobserved;
  GradientProbe approximate;
  const variable_list with_decoded = run_node(*node, function, approximate);
  if (approximate.read.empty()) return;
  GradientProbe exact;
  exact.exact = true;
  const double difference =
      worst_difference_squared(with_decoded, run_node(*node, function, exact));
  // Of several entries, errors of the smaller parts are then taken for less than they are.
  double share = 0;
  for (const Entry* entry : approximate.read) share = std::max(share, exact.exact_share(*entry));
  const double error = std::sqrt(difference / share);
  for (Entry* entry : approximate.read) stash().looks().gradient_measured(*entry, error);
}

}  // namespace

void observe_backward() {
  guard_callback.install<measure>();
}

void probe_gradients(bool on) noexcept {
  guard_callback.switch_to(on);
}

}  // namespace cinch::hooks
