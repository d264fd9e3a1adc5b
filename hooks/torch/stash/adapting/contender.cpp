// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/contender.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hooks/torch/stash/adapting/guard.h"
#include "hooks/torch/stash/adapting/round_trip.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "policy/adapting/plane_ranges.h"

namespace cinch::hooks {
namespace {

/// The read of `candidate` that needs most: values if any use reads them and it has them, else that
/// of the first use.
codecs::Reads most_read(const Plan& plan, const Plan::Candidate& candidate) {
  const bool has_values = candidate.codec->restores() == codecs::Reads::values;
  const auto values = std::ranges::find(plan.reads, codecs::Reads::values);
  return has_values && values != plan.reads.end() ? codecs::Reads::values : plan.reads.front();
}

}  // namespace

Contender::Contender(policy::Settings settings)
    : policy_(std::move(settings)),
      director_(policy::make_director(policy_.settings())),
      planner_(policy_, director_.get(), statistics_) {}

policy::Wants Contender::wants() const {
  return director_ == nullptr ? policy::Wants() : director_->wants();
}

void Contender::end_growth() {
  SimulatedGrowth closed = std::exchange(growing_, {}).closed();
  if (closed.footprint.raw_bytes > largest_.footprint.raw_bytes) largest_ = std::move(closed);
}

void Contender::begin_step(bool learns) {
  const SimulatedGrowth before = std::exchange(largest_, {});
  if (director_ == nullptr) return;
  const policy::Rehearsal steps = director_->rehearsal();
  if (learns) {
    director_->begin_step(steps.learning, nullptr);
  } else {
    const bool saved = before.footprint.raw_bytes != 0;
    director_->begin_step(steps.use, saved ? &before.footprint : nullptr);
    message_ = director_->take_message();
  }
}

void Contender::add_not_settled(std::size_t bytes) {
  growing_.footprint.raw_bytes += bytes;
  growing_.footprint.stored_bytes += bytes;
  growing_.stored_bytes += bytes;
}

std::shared_ptr<const Plan> Contender::plan(const Entry& entry, std::uint32_t layer,
                                            std::uint64_t growth) {
  policy::Footprint& footprint = growing_.footprint;
  const bool declined =
      entry.raw_bytes < policy_.settings().min_bytes || !policy_.enabled() ||
      (entry.device != nullptr && director_ != nullptr);  // its trials read host memory
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
  if (policy_.settings().derive.enabled) same.recipe.reset(entry.recipe.get());
  planner_.plan(same, growth);
  const std::uint32_t own = same.entry_class->members[same.member].layer;
  if (layer != policy::no_layer) {
    if (layer >= layers_.size()) layers_.resize(layer + 1, policy::no_layer);
    layers_[layer] = own;
  }
  if (own == policy::no_layer) {
    footprint.other_bytes += same.plan().stored_bytes;
  } else {
    footprint.add(own, entry.id);
    if (same.plan().derived != nullptr) {
      footprint.derived.push_back(
          derived_layer(*entry.recipe, own, same.plan().stored_bytes,
                        [this](const Entry& source) { return source_layer(source); }));
    }
  }
  return same.own_plan;
}

SourceLayer Contender::source_layer(const Entry& entry) const {
  const Held* known = held(entry);
  if (known == nullptr) return {};
  return {known->layer, known->plan != nullptr && known->plan->derived != nullptr};
}

bool Contender::add(const Entry& entry, std::uint32_t layer, std::uint64_t growth, bool measures) {
  const std::shared_ptr<const Plan> planned = plan(entry, layer, growth);
  entries_[&entry] = {.plan = planned, .layer = layer_of(layer)};
  if (measures) {
    return planned != nullptr && planned->encodes() && planned->candidates[0].approximates;
  }
  const std::uint32_t own = layer_of(layer);
  // A dry run keeps all exact values anyway, so all layers may be tried at once.
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  return wants().trials && own != policy::no_layer && director_->tries(own, no_limit) != 0;
}

const Contender::Held* Contender::held(const Entry& entry) const {
  const auto known = entries_.find(&entry);
  return known == entries_.end() ? nullptr : &known->second;
}

bool Contender::has_derived(const Entry& entry) const {
  const Held* known = held(entry);
  return known != nullptr && known->derived;
}

// Encodes, decodes and counts the entry. Returns the bytes that it takes.
std::size_t Contender::encode(Held& held, const Entry& entry, BufferPool& buffers,
                              codecs::ParallelFor parallel_for) {
  const Plan& plan = *held.plan;
  if (plan.action == policy::Decision::Action::drop) {
    held.row = plan.dropped;
    held.row->add(entry.raw_bytes, 0, 0);
    return 0;
  }
  if (entry.device != nullptr && !plan.candidates.empty()) {
    held.row = plan.candidates.front().totals;
    held.row->add(entry.raw_bytes, plan.stored_bytes, 0);
    return plan.stored_bytes;
  }
  const auto bytes = plan.first_that_serves([&](std::size_t i) {
    return encode_by(plan.candidates[i], held, entry, buffers, parallel_for);
  });
  if (bytes) return *bytes;
  held.row = plan.kept;
  held.row->add(entry.raw_bytes, entry.raw_bytes, 0);
  return entry.raw_bytes;
}

// The same by one candidate; nothing where that doesn't serve.
std::optional<std::size_t> Contender::encode_by(const Plan::Candidate& candidate, Held& held,
                                                const Entry& entry, BufferPool& buffers,
                                                codecs::ParallelFor parallel_for) {
  const codecs::RandomKey key = {0, entry.id, entry.step};
  const auto result =
      round_trip(candidate, entry.raw.data(), entry.raw_bytes, most_read(*held.plan, candidate),
                 key, buffers, parallel_for, entry.sides.get());
  if (!result) return {};
  if (result->encoded_bytes >= entry.raw_bytes && !candidate.is_copy()) return {};
  held.by_sides = candidate.by_sides;
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

// Decides as the stash does, where sources are settled before.
bool Contender::would_derive(Held& held, const Entry& entry) const {
  if (held.plan == nullptr || held.plan->derived == nullptr || !entry.recipe->is_ready) {
    return false;
  }
  held.approximates = entry.recipe->is_near;
  for (const Recipe::Source& each : entry.recipe->sources()) {
    const auto known = entries_.find(each.entry);
    if (known == entries_.end()) return false;
    const Held& source = known->second;
    if (source.plan == nullptr || !(source.derived || source.plan->keeps_values())) return false;
    const bool approximates = source.derived ? source.approximates : source.plan->approximates();
    if (approximates && entry.recipe->needs_exact_sources) return false;
    held.approximates |= approximates;
  }
  return !held.approximates || held.plan->may_be_approximated();
}

bool Contender::has_signs_in_source(const Recipe& recipe) const {
  if (!recipe.gave_sides || recipe.sources().empty()) return false;
  const auto source = entries_.find(recipe.sources()[0].entry);
  return source != entries_.end() && source->second.by_sides;
}

// Counts the entry as derived. Returns its bytes; nothing where the mask can't be made.
std::optional<std::size_t> Contender::derive(Held& held, const Entry& entry, BufferPool& buffers,
                                             codecs::ParallelFor parallel_for) {
  const Plan& plan = *held.plan;
  std::size_t bytes = entry.recipe->constant_bytes();
  std::uint64_t nanoseconds = 0;
  const bool needs_mask = plan.mask && !has_signs_in_source(*entry.recipe);
  if (needs_mask && entry.device != nullptr) {
    bytes += plan.mask->bound;  // the host does not read a device's memory
  } else if (needs_mask) {
    const auto mask = round_trip(*plan.mask, entry.raw.data(), entry.raw_bytes, codecs::Reads::sign,
                                 {}, buffers, parallel_for);
    if (!mask) return {};
    bytes += mask->encoded_bytes;
    nanoseconds = mask->encode_nanoseconds;
  }
  held.row = plan.derived;
  held.row->add(entry.raw_bytes, bytes, nanoseconds);
  held.row->decode_nanoseconds.fetch_add(entry.recipe->nanoseconds, std::memory_order_relaxed);
  return bytes;
}

void Contender::measure(const Entry& entry, bool encodes, BufferPool& buffers,
                        codecs::ParallelFor parallel_for) {
  const auto known = entries_.find(&entry);
  if (known == entries_.end()) return;
  Held& held = known->second;
  const double window = policy_.settings().raw_window;
  if (entry.unsaved) {
    if (!policy_.settings().derive.enabled) return;   // then it is not there
    growing_.footprint.raw_bytes -= entry.raw_bytes;  // nor is it without Cinch
  }
  if (entry.device != nullptr) growing_.device_bytes += entry.raw_bytes;
  if (held.plan == nullptr) {
    growing_.add(entry.raw_bytes, entry.raw_bytes, entry.raw_bytes, false, window);
    if (encodes) {
      statistics_.passed_through(entry.device != nullptr
                                     ? "on a device, where dry runs try no adaptive policies"
                                     : "smaller than the policy's min_bytes",
                                 entry.raw_bytes);
    }
    return;
  }
  held.derived = would_derive(held, entry);
  // In training, plans expect the size that such an entry took last: so planned equals stored.
  std::size_t stored = held.plan->stored_bytes;
  if (encodes) {
    const auto derived = held.derived ? derive(held, entry, buffers, parallel_for) : std::nullopt;
    held.derived = derived.has_value();
    stored = derived ? *derived : encode(held, entry, buffers, parallel_for);
  }
  growing_.add(entry.raw_bytes, stored, stored, held.plan->encodes(), window);
}

void Contender::learn(std::uint32_t layer, const policy::Look& look, std::size_t first_trial) {
  const std::uint32_t own = layer_of(layer);
  if (director_ == nullptr || own == policy::no_layer) return;
  const policy::Wants wants = director_->wants();
  policy::Look of_its_own = look;
  if (look.share_of_sum > 0) {
    if (!wants.trials) return;
  } else if (look.trials.empty()) {
    if (!wants.gradients && !wants.ranges && !wants.values && !wants.weights) return;
    of_its_own.producer = layer_of(look.producer);
  } else {
    if (!wants.trials || first_trial >= look.trials.size()) return;
    const std::size_t end = std::min(first_trial + most_trials, look.trials.size());
    of_its_own.trials.assign(look.trials.begin() + static_cast<std::ptrdiff_t>(first_trial),
                             look.trials.begin() + static_cast<std::ptrdiff_t>(end));
  }
  director_->observe(own, std::move(of_its_own));
}

void Contender::note_trial(const Entry& entry, const policy::Look::Trial& trial) {
  const Held* known = held(entry);
  if (known == nullptr || known->row == nullptr || !trial.was_tried()) return;
  known->row->gradient_checked(std::sqrt(std::max({trial.own, trial.passed, trial.passed_worst})));
}

Contender::Trials Contender::trials(const Entry& entry, std::uint32_t layer, bool measures) {
  const Held* known = held(entry);
  if (known == nullptr) return {};
  if (measures) {
    const auto& plan = known->plan;
    if (plan == nullptr || !plan->encodes() || !plan->candidates[0].approximates) return {};
    return {{0, plan}};
  }
  const std::uint32_t own = layer_of(layer);
  if (own == policy::no_layer || !wants().trials) return {};
  Trials plans;
  for (const std::uint32_t index : director_->trials(own)) {
    if (index >= most_trials) continue;
    plans.emplace_back(index, planner_.plan_for(entry, director_->layer(own).menu[index]));
  }
  return plans;
}

std::vector<float> Contender::plane_ranges(const Entry& entry) const {
  const Held* known = held(entry);
  if (known == nullptr || known->plan == nullptr || !wants().ranges) return {};
  const Plan& plan = *known->plan;
  if (!plan.encodes() || plan.candidates[0].group == 0) return {};
  return policy::plane_ranges(plan.candidates[0].what, entry.raw.data(), plan.candidates[0].group);
}

void Contender::fill(telemetry::Report::DryRun& row, bool measures) const {
  row.policy = policy_.settings().name;
  // A program that ended after its second step never began another growth.
  SimulatedGrowth last = growing_;
  last = std::move(last).closed();
  const SimulatedGrowth& most =
      last.footprint.raw_bytes > largest_.footprint.raw_bytes ? last : largest_;
  row.measured = measures && most.footprint.raw_bytes != 0;
  if (!row.measured) return;
  row.raw_bytes = most.footprint.raw_bytes;
  row.stored_bytes = most.stored_bytes;
  row.device_bytes = most.device_bytes;
  if (row.stored_bytes != 0) {
    row.ratio = static_cast<double>(row.raw_bytes) / static_cast<double>(row.stored_bytes);
  }
  telemetry::Report sums;
  statistics_.fill(sums);
  for (const auto& op : sums.ops) {
    row.encode_seconds += op.encode_seconds;
    row.decode_seconds += op.decode_seconds;
    row.worst_relative_error = std::max(row.worst_relative_error, op.worst_relative_error);
    row.worst_gradient_error = std::max(row.worst_gradient_error, op.worst_gradient_error);
  }
  row.passed_through = std::move(sums.passed_through);
  row.ops = std::move(sums.ops);
  row.message = message_;
}

}  // namespace cinch::hooks
