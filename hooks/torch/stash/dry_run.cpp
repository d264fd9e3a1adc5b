// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/dry_run.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/guard.h"
#include "hooks/torch/stash/recipe.h"
#include "hooks/torch/stash/round_trip.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {
namespace {

/// After so many growths recipes have been compared often enough (stash/proofs.h).
constexpr std::uint64_t growths_until_proved = 4;

/// Each policy has so many indices in Look::trials.
constexpr std::uint32_t trials_of_each = 64;

/// The bytes that one growth of the stash would have held, counted as the stash does.
struct Growth {
  policy::Footprint footprint;
  std::uint64_t stored_bytes = 0;  ///< as encoded; the footprint's is as planned
  std::uint64_t device_bytes = 0;  ///< raw bytes of entries on devices

  // Entries in the window, oldest first.
  struct Waiting {
    std::size_t raw, planned, stored;
  };
  std::deque<Waiting> window;
  std::size_t window_raw = 0;

  /// @param waits Whether the entry would be encoded, and so enters the window
  void add(std::size_t raw, std::size_t planned, std::size_t stored, bool waits,
           double window_share) {
    footprint.raw_bytes += raw;
    footprint.planned_bytes += planned;
    if (!waits) {
      footprint.stored_bytes += planned;
      stored_bytes += stored;
      return;
    }
    window.push_back({raw, planned, stored});
    window_raw += raw;
    const double limit = window_share * static_cast<double>(footprint.planned_bytes);
    while (static_cast<double>(window_raw) > limit) {
      footprint.stored_bytes += window.front().planned;
      stored_bytes += window.front().stored;
      window_raw -= window.front().raw;
      window.pop_front();
    }
  }

  /// The sums with the entries that are still in the window.
  Growth closed() && {
    footprint.stored_bytes += window_raw;
    stored_bytes += window_raw;
    return std::move(*this);
  }
};

/// The read that needs most: values if any use reads them, else that of the first use.
codecs::Reads most_read(const Plan& plan) {
  const auto values = std::ranges::find(plan.reads, codecs::Reads::values);
  return values != plan.reads.end() ? codecs::Reads::values : plan.reads.front();
}

}  // namespace

struct DryRun::Contender {
  explicit Contender(policy::Settings settings)
      : policy(std::move(settings)),
        director(policy::make_director(policy.settings())),
        planner(policy, director.get(), statistics) {}

  policy::Policy policy;
  std::unique_ptr<policy::Director> director;
  Statistics statistics;
  Planner planner;
  std::vector<std::uint32_t> layers;  ///< the director's numbers, by the stash's
  Growth growing;                     ///< the current growth
  Growth largest;                     ///< of the step
  std::string message;                ///< the director's

  std::uint32_t layer_of(std::uint32_t of_stash) const {
    return of_stash < layers.size() ? layers[of_stash] : policy::no_layer;
  }

  void close_growth() {
    Growth closed = std::exchange(growing, {}).closed();
    if (closed.footprint.raw_bytes > largest.footprint.raw_bytes) largest = std::move(closed);
  }
};

DryRun::DryRun(std::vector<policy::Settings> policies) {
  for (auto& settings : policies) {
    derives_ = derives_ || settings.derive.enabled;
    contenders_.push_back(std::make_unique<Contender>(std::move(settings)));
  }
}

DryRun::~DryRun() = default;

void DryRun::begin_growth(bool new_step) {
  const std::lock_guard lock(mutex_);
  if (is_over()) return;
  if (phase_ == Phase::before) rss_at_start_ = peak_resident_bytes();
  ++growth_;
  for (const auto& contender : contenders_) contender->close_growth();
  if (new_step) begin_step();
}

// pre: mutex_ is held
void DryRun::begin_step() {
  const bool any_adapts =
      std::ranges::any_of(contenders_, [](const auto& c) { return c->director != nullptr; });
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
  for (const auto& contender : contenders_) {
    const Growth before = std::exchange(contender->largest, {});
    if (contender->director == nullptr) continue;
    const policy::Rehearsal steps = contender->director->rehearsal();
    if (phase_ == Phase::learning) {
      contender->director->begin_step(steps.learning, nullptr);
    } else {
      const bool saved = before.footprint.raw_bytes != 0;
      contender->director->begin_step(steps.use, saved ? &before.footprint : nullptr);
      contender->message = contender->director->take_message();
    }
  }
}

void DryRun::end_growth(std::size_t not_settled) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::plain) plain_rss_bytes_ = std::max(plain_rss_bytes_, resident_bytes());
  // Backward reads these entries before they are encoded. The budget policy takes them for
  // overhead, since they are not in the planned bytes.
  for (const auto& contender : contenders_) {
    Growth& growing = contender->growing;
    growing.footprint.raw_bytes += not_settled;
    growing.footprint.stored_bytes += not_settled;
    growing.stored_bytes += not_settled;
  }
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
    if (contender->director == nullptr) continue;
    const policy::Wants wants = contender->director->wants();
    all.gradients |= wants.gradients;
    all.momentum |= wants.momentum;
    all.values |= wants.values;
    all.ranges |= wants.ranges;
    all.weights |= wants.weights;
    all.trials |= wants.trials;
  }
  return all;
}

// pre: mutex_ is held
DryRun::Held DryRun::plan(Contender& contender, const Entry& entry, std::uint32_t layer) {
  policy::Footprint& footprint = contender.growing.footprint;
  const bool declined =
      entry.raw_bytes < contender.policy.settings().min_bytes || !contender.policy.enabled() ||
      (entry.device != nullptr && contender.director != nullptr);  // its trials read host memory
  if (declined) {
    footprint.other_bytes += entry.raw_bytes;
    return {};
  }
  Entry same;
  same.raw_bytes = entry.raw_bytes;
  same.id = entry.id;
  same.step = entry.step;
  same.first_use = entry.first_use;
  same.last_use = entry.last_use;
  if (entry.cover != nullptr) same.cover = std::make_unique<Geometry>(*entry.cover);
  // `same` borrows the recipe for planning.
  const auto take_back = [](Entry* borrower) { static_cast<void>(borrower->recipe.release()); };
  const std::unique_ptr<Entry, decltype(take_back)> lent(&same);
  if (contender.policy.settings().derive.enabled) same.recipe.reset(entry.recipe.get());
  contender.planner.plan(same, growth_);
  const std::uint32_t own = same.entry_class->members[same.member].layer;
  if (layer != policy::no_layer) {
    if (layer >= contender.layers.size()) contender.layers.resize(layer + 1, policy::no_layer);
    contender.layers[layer] = own;
  }
  if (own == policy::no_layer) {
    footprint.other_bytes += same.plan().stored_bytes;
  } else {
    footprint.layers.push_back(own);
  }
  return {same.own_plan};
}

bool DryRun::add(const Entry& entry, std::uint32_t layer) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::learning && phase_ != Phase::measuring) return false;
  std::vector<Held> held;
  bool tried = false;
  for (const auto& contender : contenders_) {
    held.push_back(plan(*contender, entry, layer));
    const Plan* plan = held.back().plan.get();
    if (phase_ == Phase::measuring) {
      tried = tried || (plan != nullptr && plan->encodes() && plan->candidates[0].approximates);
    } else if (contender->director != nullptr && contender->director->wants().trials) {
      const std::uint32_t own = contender->layer_of(layer);
      // A dry run keeps all exact values anyway, so all layers may be tried at once.
      constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
      if (own != policy::no_layer && contender->director->tries(own, no_limit)) tried = true;
    }
  }
  entries_[&entry] = std::move(held);
  return tried && entry.device == nullptr;
}

// Encodes, decodes and counts the entry. Returns the bytes that it takes. pre: mutex_ is held
std::size_t DryRun::encode(Held& held, const Entry& entry, codecs::ParallelFor parallel_for) {
  const Plan& plan = *held.plan;
  if (plan.action == policy::Decision::Action::drop) {
    held.row = plan.dropped;
    held.row->add(entry.raw_bytes, 0, 0);
    return 0;
  }
  for (const Plan::Candidate& candidate : plan.candidates) {
    if (entry.device != nullptr) {
      held.row = candidate.totals;
      held.row->add(entry.raw_bytes, plan.stored_bytes, 0);
      return plan.stored_bytes;
    }
    const codecs::RandomKey key = {0, entry.id, entry.step};
    const auto result = round_trip(candidate, entry.raw.data(), entry.raw_bytes, most_read(plan),
                                   key, buffers_, buffers_, parallel_for);
    if (!result) continue;
    if (result->encoded_bytes >= entry.raw_bytes && !candidate.is_copy()) continue;
    held.row = candidate.totals;
    held.row->add(entry.raw_bytes, result->encoded_bytes, result->encode_nanoseconds);
    held.row->decode_nanoseconds.fetch_add(result->decode_nanoseconds, std::memory_order_relaxed);
    if (candidate.approximates) {
      held.row->checked(
          value_error(entry.raw.data(), result->decoded.get(), candidate.what.type, entry.raw_bytes)
              .relative);
    }
    return result->encoded_bytes;
  }
  held.row = plan.kept;
  held.row->add(entry.raw_bytes, entry.raw_bytes, 0);
  return entry.raw_bytes;
}

// Decides as the stash does, where sources are settled before. pre: mutex_ is held
bool DryRun::would_derive(std::size_t contender, Held& held, const Entry& entry) const {
  if (held.plan == nullptr || held.plan->derived == nullptr || !entry.recipe->is_ready) {
    return false;
  }
  for (const Recipe::Source& each : entry.recipe->sources()) {
    const auto known = entries_.find(each.entry);
    if (known == entries_.end()) return false;
    const Held& source = known->second[contender];
    if (source.plan == nullptr || !(source.derived || source.plan->keeps_values())) return false;
    held.approximates |= source.derived ? source.approximates : source.plan->approximates();
  }
  return !held.approximates || held.plan->approximates();
}

// Counts the entry as derived. Returns its bytes; nothing where the mask can't be made.
// pre: mutex_ is held
std::optional<std::size_t> DryRun::derive(Held& held, const Entry& entry,
                                          codecs::ParallelFor parallel_for) {
  const Plan& plan = *held.plan;
  std::size_t bytes = entry.recipe->constant_bytes();
  std::uint64_t nanoseconds = 0;
  if (plan.mask) {
    const auto mask = round_trip(*plan.mask, entry.raw.data(), entry.raw_bytes, codecs::Reads::sign,
                                 {}, buffers_, buffers_, parallel_for);
    if (!mask) return {};
    bytes += mask->encoded_bytes;
    nanoseconds = mask->encode_nanoseconds;
  }
  held.row = plan.derived;
  held.row->add(entry.raw_bytes, bytes, nanoseconds);
  held.row->decode_nanoseconds.fetch_add(entry.recipe->nanoseconds, std::memory_order_relaxed);
  return bytes;
}

void DryRun::measure(const Entry& entry, codecs::ParallelFor parallel_for) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(&entry);
  if (known == entries_.end() || is_over()) return;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    Held& held = known->second[i];
    Contender& contender = *contenders_[i];
    const double window = contender.policy.settings().raw_window;
    if (entry.device != nullptr) contender.growing.device_bytes += entry.raw_bytes;
    if (held.plan == nullptr) {
      contender.growing.add(entry.raw_bytes, entry.raw_bytes, entry.raw_bytes, false, window);
      if (phase_ == Phase::measuring) {
        contender.statistics.passed_through(
            entry.device != nullptr ? "on a device, where dry runs try no adaptive policies"
                                    : "smaller than the policy's min_bytes",
            entry.raw_bytes);
      }
      continue;
    }
    held.derived = would_derive(i, held, entry);
    // In training, plans expect the size that such an entry took last: so planned equals stored.
    std::size_t stored = held.plan->stored_bytes;
    if (phase_ == Phase::measuring) {
      const auto derived = held.derived ? derive(held, entry, parallel_for) : std::nullopt;
      held.derived = derived.has_value();
      stored = derived ? *derived : encode(held, entry, parallel_for);
    }
    const std::size_t planned = stored;
    contender.growing.add(entry.raw_bytes, planned, stored, held.plan->encodes(), window);
  }
}

bool DryRun::has_derived(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(&entry);
  return known != entries_.end() && std::ranges::any_of(known->second, &Held::derived);
}

void DryRun::forget(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  entries_.erase(&entry);
}

// pre: mutex_ is held
void DryRun::learn(Contender& contender, std::size_t number, std::uint32_t layer,
                   const policy::Look& look) {
  const std::uint32_t own = contender.layer_of(layer);
  if (contender.director == nullptr || own == policy::no_layer) return;
  const policy::Wants wants = contender.director->wants();
  policy::Look of_its_own = look;
  if (look.share_of_sum > 0) {
    if (!wants.trials) return;
  } else if (look.trials.empty()) {
    if (!wants.gradients && !wants.ranges && !wants.values && !wants.weights) return;
    of_its_own.producer = contender.layer_of(look.producer);
  } else {
    const std::size_t begin = number * trials_of_each;
    if (!wants.trials || begin >= look.trials.size()) return;
    const std::size_t end = std::min(begin + trials_of_each, look.trials.size());
    of_its_own.trials.assign(look.trials.begin() + static_cast<std::ptrdiff_t>(begin),
                             look.trials.begin() + static_cast<std::ptrdiff_t>(end));
  }
  contender.director->observe(own, std::move(of_its_own));
}

void DryRun::observe(const Entry& entry, std::uint32_t layer, const policy::Look& look) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::learning) {
    for (std::size_t i = 0; i < contenders_.size(); ++i) learn(*contenders_[i], i, layer, look);
    return;
  }
  const auto known = entries_.find(&entry);
  if (known == entries_.end()) return;
  for (std::size_t i = 0; i * trials_of_each < look.trials.size(); ++i) {
    const policy::Look::Trial& trial = look.trials[i * trials_of_each];
    OpTotals* row = known->second[i].row;
    if (!trial.was_tried() || row == nullptr) continue;
    row->gradient_checked(std::sqrt(std::max({trial.own, trial.passed, trial.passed_worst})));
  }
}

std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> DryRun::trials(
    const Entry& entry, std::uint32_t layer) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> plans;
  const auto known = entries_.find(&entry);
  if (known == entries_.end() || is_over()) return plans;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    Contender& contender = *contenders_[i];
    const auto first = static_cast<std::uint32_t>(i) * trials_of_each;
    if (phase_ == Phase::measuring) {
      const auto& plan = known->second[i].plan;
      if (plan == nullptr || !plan->encodes() || !plan->candidates[0].approximates) continue;
      plans.emplace_back(first, plan);
      continue;
    }
    const std::uint32_t own = contender.layer_of(layer);
    if (contender.director == nullptr || own == policy::no_layer) continue;
    if (!contender.director->wants().trials) continue;
    for (const std::uint32_t index : contender.director->trials(own)) {
      if (index >= trials_of_each) continue;
      plans.emplace_back(first + index, contender.planner.plan_for(
                                            entry, contender.director->layer(own).menu[index]));
    }
  }
  return plans;
}

std::vector<float> DryRun::plane_ranges(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(&entry);
  const bool is_there = known != entries_.end() && entry.is_raw() && entry.device == nullptr;
  if (!is_there || !entry.is_as_saved()) return {};
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    const auto& director = contenders_[i]->director;
    const Plan* plan = known->second[i].plan.get();
    if (director == nullptr || !director->wants().ranges || plan == nullptr) continue;
    if (!plan->encodes() || plan->candidates[0].group == 0) continue;
    return policy::plane_ranges(plan->candidates[0].what, entry.raw.data(),
                                plan->candidates[0].group);
  }
  return {};
}

void DryRun::fill(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  report.plain_rss_bytes = plain_rss_bytes_;
  for (const auto& [identity, bytes] : parameters_) report.parameter_bytes += bytes;
  for (const auto& contender : contenders_) {
    telemetry::Report sums;
    contender->statistics.fill(sums);
    auto& row = report.dry_run.emplace_back();
    row.policy = contender->policy.settings().name;
    // A program that ended after its second step never began another growth.
    Growth last = contender->growing;
    last = std::move(last).closed();
    const Growth& most = last.footprint.raw_bytes > contender->largest.footprint.raw_bytes
                             ? last
                             : contender->largest;
    row.measured = phase_ >= Phase::measuring && most.footprint.raw_bytes != 0;
    if (!row.measured) continue;
    row.raw_bytes = most.footprint.raw_bytes;
    row.stored_bytes = most.stored_bytes;
    row.device_bytes = most.device_bytes;
    if (row.stored_bytes != 0) {
      row.ratio = static_cast<double>(row.raw_bytes) / static_cast<double>(row.stored_bytes);
    }
    for (const auto& op : sums.ops) {
      row.encode_seconds += op.encode_seconds;
      row.decode_seconds += op.decode_seconds;
      row.worst_relative_error = std::max(row.worst_relative_error, op.worst_relative_error);
      row.worst_gradient_error = std::max(row.worst_gradient_error, op.worst_gradient_error);
    }
    row.passed_through = std::move(sums.passed_through);
    row.ops = std::move(sums.ops);
    row.message = contender->message;
  }
}

}  // namespace cinch::hooks
