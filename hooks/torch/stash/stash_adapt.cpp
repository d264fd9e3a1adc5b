// SPDX-License-Identifier: Apache-2.0
// What the stash does for adaptive policies: steps, footprints, and exact values for trials.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_rows.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/listeners.h"
#include "hooks/torch/stash/round_trip.h"
#include "hooks/torch/stash/stash.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {
namespace {

/// What people can find again among the report's entries.
std::string name_of(const EntryRow& row) {
  return row.op + ' ' + row.operand + ' ' + row.shape + " #" + std::to_string(row.place);
}

}  // namespace

// A growth begins: the one before it is part of the step, and perhaps a new step begins. Steps are
// the optimizer's; programs that never run one through torch.optim have a step each growth.
// pre: mutex_ is held
void Stash::begin_step() {
  close_footprint();
  const std::uint64_t now = optimizer_steps();
  const bool same_step = adaptive_step_ != 0 && now != 0 && now == steps_seen_;
  if (dry_run_ != nullptr) dry_run_->begin_growth(!same_step);
  if (same_step) return;
  steps_seen_ = now;
  const std::uint64_t before = director_->changes();
  const Stopwatch watch;
  director_->begin_step(adaptive_step_++, footprint_.raw_bytes == 0 ? nullptr : &footprint_);
  statistics_.adapted(watch.nanoseconds());  // time in Cinch anyway, as part of a save
  if (const std::uint64_t changed = director_->changes() - before; changed != 0) {
    tell(telemetry::EventKind::decision, "%llu of %zu layers are held otherwise",
         static_cast<unsigned long long>(changed), director_->layers());
  }
  footprint_ = {};
  for (std::string message : {director_->take_message(), save_learned()}) {
    if (message.empty()) continue;
    tell(telemetry::EventKind::message, "%s", message.c_str());
    message_ = std::move(message);
  }
  listeners().wants(dry_run_ == nullptr ? director_->wants() : dry_run_->wants());
}

// Ranks of one job learn the same, more or less; one of them writes. pre: mutex_ is held
std::string Stash::save_learned() {
  const char* rank = std::getenv("RANK");
  const bool first = rank == nullptr || std::strcmp(rank, "0") == 0;
  return first && !is_forked_child() ? state_file_.save(*director_) : "";
}

void Stash::keep_learned() noexcept {
  const std::lock_guard lock(mutex_);
  if (director_ == nullptr) return;
  const std::string message = save_learned();
  if (!message.empty()) std::fprintf(stderr, "cinch: %s\n", message.c_str());
}

// What is held now, as it would be if all that left the window were encoded: how far the side
// thread got, and what is watched, must not decide anything. pre: mutex_ is held
void Stash::measure_footprint() {
  policy::Footprint& now = growing_footprint_;
  now.raw_bytes = settled_raw_ + settling_bytes_ + window_bytes_;
  now.stored_bytes = planned_stored_ - planned_aside_ - window_planned_ + window_bytes_;
  for (const Entry* entry : owned_) {
    if (entry->raw.use_count() != 1) continue;
    now.raw_bytes += entry->raw_bytes;
    now.stored_bytes += entry->raw_bytes;
  }
}

void Stash::close_footprint() {
  if (growing_footprint_.raw_bytes > footprint_.raw_bytes) footprint_ = growing_footprint_;
  growing_footprint_ = {};
}

// A new entry of an adaptive policy's. pre: mutex_ is held, entry is planned
void Stash::try_entry(Entry& entry) {
  const std::uint32_t layer = entry.entry_class->members[entry.member].layer;
  const std::size_t planned = entry.plan().stored_bytes - planned_aside(entry, entry.plan());
  growing_footprint_.planned_bytes += planned;
  if (dry_run_ != nullptr) {
    if (dry_run_->add(entry, layer)) note_tried(entry);
    return;
  }
  if (layer == policy::no_layer) {
    growing_footprint_.other_bytes += planned;
    return;
  }
  growing_footprint_.layers.push_back(layer);
  const policy::Wants wants = director_->wants();
  entry.ranged = wants.ranges;
  if (!wants.trials || !director_->tries(layer, peak_.raw_bytes)) return;
  note_tried(entry);
}

void Stash::note_tried(Entry& entry) {
  entry.tried = true;
  const Use* use = entry.first_use;
  try {
    for (; use != nullptr; use = use->next) ++tried_sequences_[use->sequence];
  } catch (...) {
    for (const Use* noted = entry.first_use; noted != use; noted = noted->next) {
      forget_tried(*noted);
    }
    entry.tried = false;
    throw;
  }
}

// pre: mutex_ is held, entry is planned
void Stash::note_choice(Entry& entry) {
  const Plan& plan = entry.plan();
  const OpTotals* chosen = plan.candidates.empty() ? plan.kept : plan.candidates.front().totals;
  EntryRow& row = *entry.row;
  const bool same_bytes = row.chosen_bytes == plan.stored_bytes || plan.sized;
  if (row.chosen == chosen && same_bytes) return;
  // What a layer is held as first is no news.
  if (row.chosen != nullptr) {
    timeline_.decided("choice", name_of(row),
                      row.chosen->codec + ", " + std::to_string(row.chosen_bytes) + " bytes -> " +
                          chosen->codec + ", " + std::to_string(plan.stored_bytes) + " bytes");
  }
  row.chosen = chosen;
  row.chosen_bytes = plan.stored_bytes;
}

// pre: mutex_ is held, entry is encoded
void Stash::note_caution(const Entry& entry, const char* what, double error, double limit,
                         bool broken) noexcept {
  char detail[160];
  std::snprintf(detail, sizeof detail,
                broken ? "%s off beyond all bounds (%.2g, limit %.2g): held losslessly"
                       : "%s off by %.2g, limit %.2g: held more precisely",
                what, error, limit);
  if_memory_allows([&] { timeline_.decided("guard", name_of(*entry.row), detail); });
}

void Stash::forget_tried(const Use& use) noexcept {
  const auto known = tried_sequences_.find(use.sequence);
  if (known != tried_sequences_.end() && --known->second == 0) tried_sequences_.erase(known);
}

policy::Wants Stash::wants() const {
  if (!adapts_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  if (dry_run_ != nullptr) return dry_run_->wants();
  return director_ == nullptr ? policy::Wants() : director_->wants();
}

void Stash::observe(const Entry& entry, policy::Look look) {
  const std::lock_guard lock(mutex_);
  if (entry.entry_class == nullptr) return;
  const std::uint32_t layer = entry.entry_class->members[entry.member].layer;
  if (dry_run_ != nullptr) {
    dry_run_->observe(entry, layer, look);
    return;
  }
  if (layer != policy::no_layer) director_->observe(layer, std::move(look));
}

void Stash::saw_parameter(const void* identity, std::size_t bytes) {
  if (dry_run_ != nullptr) dry_run_->saw_parameter(identity, bytes);
}

std::uint32_t Stash::layer_of(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  if (entry.entry_class == nullptr) return policy::no_layer;
  return entry.entry_class->members[entry.member].layer;
}

bool Stash::is_tried(std::uint32_t sequence) const {
  const std::lock_guard lock(mutex_);
  return tried_sequences_.contains(sequence);
}

std::vector<float> Stash::plane_ranges(Entry& entry) {
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  if (dry_run_ != nullptr) return dry_run_->plane_ranges(entry);
  if (entry.planes != nullptr && !entry.planes->ranges.empty()) return entry.planes->ranges;
  const bool is_there = entry.is_raw() && entry.own_plan != nullptr && entry.is_as_saved();
  if (!is_there || entry.plan().candidates.empty()) return {};
  const Plan::Candidate& candidate = entry.plan().candidates.front();
  if (candidate.codec->name() != "group_quant") return {};
  if (entry.device == nullptr) {
    return policy::plane_ranges(candidate.what, entry.raw.data(), candidate.group);
  }
  const auto copy = host_copy(entry.raw, entry.raw_bytes, entry.device->saved_on);
  if (copy == nullptr) return {};
  return policy::plane_ranges(candidate.what, copy.get(), candidate.group);
}

std::vector<Stash::Trial> Stash::trials(Entry& entry) {
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> plans;
  {
    const std::lock_guard lock(mutex_);
    const std::uint32_t layer = entry.entry_class->members[entry.member].layer;
    if (dry_run_ != nullptr) {
      plans = dry_run_->trials(entry, layer);
    } else {
      for (const std::uint32_t index : director_->trials(layer)) {
        plans.emplace_back(index, planner_->plan_for(entry, director_->layer(layer).menu[index]));
      }
    }
  }
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  c10::Storage exact;
  if (entry.is_raw() && entry.is_as_saved()) exact = entry.raw;
  if (entry.keeps_source()) exact = entry.device->source;
  if (entry.sample != nullptr) exact = entry.sample->exact;
  if (!exact && entry.state == Entry::State::encoded &&
      !entry.plan().candidates[entry.candidate].approximates) {
    exact = decode(entry, codecs::Reads::values, torch_parallel_for);
  }
  std::vector<Trial> trials;
  if (!exact) return trials;
  for (const auto& [index, plan] : plans) {
    if (plan->candidates.empty()) continue;
    const Plan::Candidate& candidate = plan->candidates.front();
    const codecs::RandomKey key = {settings().seed, entry.id, entry.step};
    if (entry.device != nullptr) {
      c10::Storage values = round_trip(exact, candidate, key, entry.device->saved_on);
      if (!values) break;
      trials.push_back({.index = index, .values = std::move(values)});
      continue;
    }
    auto result = round_trip(candidate, exact.data(), entry.raw_bytes, codecs::Reads::values, key,
                             encoded_pool_, decoded_pool_, torch_parallel_for);
    if (!result) continue;
    const ValueError error =
        value_error(exact.data(), result->decoded.get(), candidate.what.type, entry.raw_bytes);
    const double mean_square = error.non_finite == 0 ? error.mean_square : -1;
    trials.push_back({index, storage_of(std::move(result->decoded), entry.raw_bytes), mean_square,
                      result->encoded_bytes});
  }
  return trials;
}

}  // namespace cinch::hooks
