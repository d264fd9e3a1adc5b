// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/dry_run.h"

#include <algorithm>

#include "hooks/torch/process/process_memory.h"

namespace cinch::hooks {
namespace {

/// After so many growths recipes have been compared often enough (stash/recipes/proofs.h).
constexpr std::uint64_t growths_until_proved = 4;

}  // namespace

DryRun::DryRun(std::vector<policy::Settings> policies) {
  for (auto& settings : policies) {
    derives_ = derives_ || settings.derive.enabled;
    contenders_.push_back(std::make_unique<Contender>(std::move(settings)));
  }
}

void DryRun::begin_growth(bool new_step) {
  const std::lock_guard lock(mutex_);
  if (is_over()) return;
  if (phase_ == Phase::before) rss_at_start_ = peak_resident_bytes();
  ++growth_;
  for (const auto& contender : contenders_) contender->end_growth();
  if (new_step) begin_step();
}

// pre: mutex_ is held
void DryRun::begin_step() {
  const bool any_adapts =
      std::ranges::any_of(contenders_, [](const auto& c) { return c->adapts(); });
  switch (phase_) {
    case Phase::before:
      phase_ = Phase::plain;
      return;
    case Phase::plain:
      // A value computed from derived values is only derived when both recipes are proved.
      if (derives_ && growth_ < growths_until_proved) return;
      // Unless the program needed more before it began to train, this is the step's peak.
      if (const auto peak = peak_resident_bytes(); peak > rss_at_start_) plain_rss_bytes_ = peak;
      phase_ = any_adapts ? Phase::learning : Phase::measuring;
      break;
    case Phase::learning:
      phase_ = Phase::measuring;
      break;
    default:
      phase_ = Phase::done;
      return;
  }
  for (const auto& contender : contenders_) contender->begin_step(phase_ == Phase::learning);
}

void DryRun::end_growth(std::size_t not_settled) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::plain) plain_rss_bytes_ = std::max(plain_rss_bytes_, resident_bytes());
  for (const auto& contender : contenders_) contender->add_not_settled(not_settled);
}

void DryRun::saw_parameter(const void* identity, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  parameters_[identity] = bytes;
}

bool DryRun::take_done() {
  const std::lock_guard lock(mutex_);
  return is_over() && !std::exchange(done_taken_, true);
}

policy::Wants DryRun::wants() const {
  const std::lock_guard lock(mutex_);
  policy::Wants all;
  all.parameters = phase_ == Phase::plain;
  all.trials = phase_ == Phase::measuring;
  if (phase_ != Phase::learning) return all;
  for (const auto& contender : contenders_) {
    const policy::Wants wants = contender->wants();
    all.gradients |= wants.gradients;
    all.momentum |= wants.momentum;
    all.values |= wants.values;
    all.ranges |= wants.ranges;
    all.weights |= wants.weights;
    all.trials |= wants.trials;
  }
  return all;
}

bool DryRun::add(const Entry& entry, std::uint32_t layer) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::learning && phase_ != Phase::measuring) return false;
  bool tried = false;
  for (const auto& contender : contenders_) {
    tried |= contender->add(entry, layer, growth_, phase_ == Phase::measuring);
  }
  return tried && entry.device == nullptr;
}

void DryRun::measure(const Entry& entry, codecs::ParallelFor parallel_for) {
  const std::lock_guard lock(mutex_);
  if (is_over()) return;
  for (const auto& contender : contenders_) {
    contender->measure(entry, phase_ == Phase::measuring, buffers_, parallel_for);
  }
}

bool DryRun::has_derived(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(contenders_,
                             [&](const auto& each) { return each->has_derived(entry); });
}

void DryRun::forget(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  for (const auto& contender : contenders_) contender->forget(entry);
}

void DryRun::observe(const Entry& entry, std::uint32_t layer, const policy::Look& look) {
  const std::lock_guard lock(mutex_);
  std::size_t first_trial = 0;
  for (const auto& contender : contenders_) {
    if (phase_ == Phase::learning) {
      contender->learn(layer, look, first_trial);
    } else if (first_trial < look.trials.size()) {
      contender->note_trial(entry, look.trials[first_trial]);
    }
    first_trial += Contender::most_trials;
  }
}

Contender::Trials DryRun::trials(const Entry& entry, std::uint32_t layer) {
  const std::lock_guard lock(mutex_);
  Contender::Trials plans;
  if (is_over()) return plans;
  std::uint32_t first_trial = 0;
  for (const auto& contender : contenders_) {
    for (auto& [index, plan] : contender->trials(entry, layer, phase_ == Phase::measuring)) {
      plans.emplace_back(first_trial + index, std::move(plan));
    }
    first_trial += Contender::most_trials;
  }
  return plans;
}

std::vector<float> DryRun::plane_ranges(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  if (!entry.is_raw() || entry.device != nullptr || !entry.is_as_saved()) return {};
  for (const auto& contender : contenders_) {
    if (auto ranges = contender->plane_ranges(entry); !ranges.empty()) return ranges;
  }
  return {};
}

void DryRun::fill(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  report.plain_rss_bytes = plain_rss_bytes_;
  for (const auto& [identity, bytes] : parameters_) report.parameter_bytes += bytes;
  for (const auto& contender : contenders_) {
    contender->fill(report.dry_run.emplace_back(), phase_ >= Phase::measuring);
  }
}

}  // namespace cinch::hooks
