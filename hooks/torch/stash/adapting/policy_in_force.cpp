// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/policy_in_force.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "hooks/torch/stash/figures/listeners.h"
#include "policy/deciding/rescue.h"

namespace cinch::hooks {

PolicyInForce::PolicyInForce(policy::Settings settings, bool is_dry_run, EntryLists& lists,
                             Statistics& statistics, Adaptation& adaptation, Guard& guard)
    : lists_(lists),
      statistics_(statistics),
      adaptation_(adaptation),
      guard_(guard),
      is_dry_run_(is_dry_run),
      policy_(keep(std::move(settings))) {
  begin();
}

const policy::Policy* PolicyInForce::keep(policy::Settings settings) {
  return policies_.emplace_back(std::make_unique<policy::Policy>(std::move(settings))).get();
}

// Sets up the director and the planner for the policy in force. @return messages for the user
std::vector<std::string> PolicyInForce::begin() {
  std::vector<std::string> told = adaptation_.begin(settings());
  const policy::Policy* harder = nullptr;
  if (auto least = is_dry_run_ ? std::nullopt : policy::harder(settings())) {
    harder = keep(std::move(*least));
  }
  planner_.emplace(*policy_.load(std::memory_order_relaxed), adaptation_.director(), statistics_,
                   harder);
  return told;
}

std::size_t PolicyInForce::window_limit() const {
  return static_cast<std::size_t>(settings().raw_window *
                                  static_cast<double>(lists_.planned.all()));
}

std::uint64_t PolicyInForce::in_flight_limit() const {
  constexpr std::uint64_t share = 16;
  constexpr std::uint64_t enough = std::uint64_t{16} << 20;  // for a device to have work meanwhile
  return std::min(settings().in_flight_bytes, std::max(enough, lists_.raw_bytes_at_peak() / share));
}

void PolicyInForce::change(policy::Settings settings, void (*done)(const std::string& words)) {
  const std::lock_guard lock(lists_.mutex);
  change_ = Change{std::move(settings), done};
  take_up_change();
}

void PolicyInForce::take_up_change() {
  if (!change_ || lists_.alive != 0) return;
  Change change = std::move(*change_);
  change_.reset();
  const std::string before = settings().name;
  policy_.store(keep(std::move(change.settings)), std::memory_order_release);
  const std::vector<std::string> told = begin();
  guard_.change(settings().guard);
  if (adaptation_.director() == nullptr) listeners().wants({});
  lists_.set_peak({});
  lists_.at_boundary = {};
  const std::string words = before + " -> " + settings().name;
  lists_.timeline.decided("policy", "all", words);
  listeners().policy(settings().name);
  tell(telemetry::EventKind::message, "policy: %s", words.c_str());
  for (const std::string& message : told) {
    if (!message.empty()) tell(telemetry::EventKind::message, "%s", message.c_str());
  }
  change.done(told.back().empty() ? words : words + "; " + told.back());
}

}  // namespace cinch::hooks
