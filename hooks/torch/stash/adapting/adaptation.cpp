// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/adaptation.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "files/terminal.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "hooks/torch/stash/figures/listeners.h"
#include "hooks/torch/stash/recipes/layers_of_sources.h"

namespace cinch::hooks {
namespace {

/// @pre the entry's class is known, the stash's lock is held
std::uint32_t layer_in(const Entry& entry) {
  return entry.entry_class->members[entry.member].layer;
}

/// @pre the stash's lock is held
SourceLayer source_layer(const Entry& entry) {
  if (entry.entry_class == nullptr) return {};  // the program owns it still
  return {layer_in(entry), entry.plan().derived != nullptr};
}

}  // namespace

policy::Wants Adaptation::wants() const {
  if (!adapts_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  if (dry_run_ != nullptr) return dry_run_->wants();
  return director_ == nullptr ? policy::Wants() : director_->wants();
}

void Adaptation::observe(const Entry& entry, policy::Look look) {
  const std::lock_guard lock(mutex_);
  if (entry.entry_class == nullptr) return;
  const std::uint32_t layer = layer_in(entry);
  if (dry_run_ != nullptr) {
    dry_run_->observe(entry, layer, look);
    return;
  }
  if (layer != policy::no_layer) director_->observe(layer, std::move(look));
}

std::uint32_t Adaptation::layer_of(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  return entry.entry_class == nullptr ? policy::no_layer : layer_in(entry);
}

bool Adaptation::is_tried(std::uint32_t sequence) const {
  const std::lock_guard lock(mutex_);
  return tried_.contains(sequence);
}

void Adaptation::keep_learned() noexcept {
  const std::lock_guard lock(mutex_);
  const std::string message = save_learned();
  if (!message.empty()) files::say(message);
}

std::vector<std::string> Adaptation::begin(const policy::Settings& settings) {
  std::vector<std::string> told = {save_learned()};
  director_ =
      dry_run_ == nullptr ? policy::make_director(settings) : policy::make_keeping_director();
  adapts_.store(director_ != nullptr, std::memory_order_relaxed);
  state_file_ = policy::StateFile(settings.state_file);
  message_ = director_ == nullptr ? "" : state_file_.load(*director_);
  told.push_back(message_);
  step_ = 0;
  growing_footprint_ = footprint_ = {};
  tried_.clear();
  return told;
}

void Adaptation::begin_growth() {
  if (director_ == nullptr) return;
  if (growing_footprint_.raw_bytes > footprint_.raw_bytes) footprint_ = growing_footprint_;
  growing_footprint_ = {};
  begin_step();
}

// Begins a step if the optimizer has stepped. In programs that step none of torch.optim's, each
// growth is a step.
void Adaptation::begin_step() {
  const std::uint64_t now = optimizer_steps();
  const bool same_step = step_ != 0 && now != 0 && now == steps_seen_;
  if (dry_run_ != nullptr) dry_run_->begin_growth(!same_step);
  if (same_step) return;
  steps_seen_ = now;
  const std::uint64_t before = director_->changes();
  const Stopwatch watch;
  director_->begin_step(step_++, footprint_.raw_bytes == 0 ? nullptr : &footprint_);
  statistics_.adapted(watch.nanoseconds());  // a save already counts it as time in Cinch
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

// Only rank 0 writes: all ranks of a job learn about the same.
std::string Adaptation::save_learned() {
  if (director_ == nullptr) return "";
  const char* rank = std::getenv("RANK");
  const bool first = rank == nullptr || std::strcmp(rank, "0") == 0;
  return first && !is_forked_child() ? state_file_.save(*director_) : "";
}

void Adaptation::measure(std::size_t raw_bytes, std::size_t stored_bytes) {
  growing_footprint_.raw_bytes = raw_bytes;
  growing_footprint_.stored_bytes = stored_bytes;
}

void Adaptation::add(Entry& entry, std::size_t planned_bytes, std::size_t peak) {
  if (director_ == nullptr) return;
  if_memory_allows([&] { note_choice(entry); });
  const std::uint32_t layer = layer_in(entry);
  growing_footprint_.planned_bytes += planned_bytes;
  if (dry_run_ != nullptr) {
    if_memory_allows([&] {
      if (!dry_run_->add(entry, layer)) return;
      tried_.add(entry);
      entry.tried = true;
    });
    return;
  }
  if (layer == policy::no_layer) {
    growing_footprint_.other_bytes += planned_bytes;
    return;
  }
  if_memory_allows([&] {
    growing_footprint_.add(layer, entry.id);
    if (entry.plan().derived != nullptr) {
      growing_footprint_.derived.push_back(
          derived_layer(*entry.recipe, layer, planned_bytes, source_layer));
    }
    entry.ranged = director_->wants().ranges;
    const std::size_t kept = director_->tries(layer, peak);
    if (kept == 0) return;
    // Parts are copied by the host.
    entry.sample_bytes = entry.device == nullptr ? kept : entry.raw_bytes;
    tried_.add(entry);
    entry.tried = true;
  });
}

// Records a changed choice in the timeline; a layer's first choice is not recorded.
void Adaptation::note_choice(const Entry& entry) {
  const Plan& plan = entry.plan();
  const OpTotals* chosen = plan.candidates.empty() ? plan.kept : plan.candidates.front().totals;
  if (plan.derived != nullptr) chosen = plan.derived;
  EntryClass::Member& member = entry.entry_class->members[entry.member];
  const bool same_bytes = member.chosen_bytes == plan.stored_bytes || plan.sized;
  if (member.chosen == chosen && same_bytes) return;
  if (member.chosen != nullptr) {
    timeline_.decided("choice", entry.row->name.title(),
                      member.chosen->codec + ", " + std::to_string(member.chosen_bytes) +
                          " bytes -> " + chosen->codec + ", " + std::to_string(plan.stored_bytes) +
                          " bytes");
  }
  member.chosen = chosen;
  member.chosen_bytes = plan.stored_bytes;
}

}  // namespace cinch::hooks
