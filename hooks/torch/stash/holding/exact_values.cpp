// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/exact_values.h"

#include <cstddef>
#include <cstring>
#include <mutex>

#include "hooks/torch/stash/entry/entry_work.h"

namespace cinch::hooks {
namespace {

/// Leaves only the part of `sample` of what a trial made of `mixed`; the rest is that of `mixed`.
void keep_part_alone(const c10::Storage& tried, const c10::Storage& mixed,
                     const GuardSample& sample) {
  std::vector<std::byte> part(sample.exact.nbytes());
  sample.part->take(tried.data(), part);
  std::memcpy(tried.mutable_data(), mixed.data(), mixed.nbytes());
  sample.part->put(part, tried.mutable_data());
}

}  // namespace

std::vector<float> ExactValues::plane_ranges(Entry& entry) {
  const EntryLock lock(entry);
  if (dry_run_ != nullptr) return dry_run_->plane_ranges(entry);
  if (entry.planes != nullptr && !entry.planes->ranges.empty()) return entry.planes->ranges;
  const bool is_there = entry.is_raw() && entry.own_plan != nullptr && entry.is_as_saved();
  if (!is_there || entry.plan().candidates.empty()) return {};
  const Plan::Candidate& candidate = entry.plan().candidates.front();
  return candidate.group == 0 ? std::vector<float>{}
                              : holdings_.of(entry).plane_ranges(candidate, entry);
}

std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> ExactValues::plans(
    const Entry& entry) {
  const std::lock_guard lock(lists_.mutex);
  const std::uint32_t layer = entry.entry_class->members[entry.member].layer;
  if (dry_run_ != nullptr) return dry_run_->trials(entry, layer);
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> plans;
  const policy::Director& director = *adaptation_.director();
  for (const std::uint32_t index : director.trials(layer)) {
    plans.emplace_back(index, policy_.planner().plan_for(entry, director.layer(layer).menu[index]));
  }
  return plans;
}

c10::Storage ExactValues::of(Entry& entry) {
  side_.await_settled(entry);
  const EntryWork work(entry);
  return held(entry);
}

// pre: entry.mutex() is held
c10::Storage ExactValues::held(Entry& entry) {
  // Only behind the sample, which was kept after these were set: until then, another thread may set
  // them. A comparison must change nothing: without it the sample's values would be gone, and
  // prove no recipe.
  if (entry.sample != nullptr && (!entry.compared || entry.watched || entry.tried)) {
    return entry.sample->part ? c10::Storage() : entry.sample->exact;
  }
  if (entry.keeps_source()) return entry.source();
  if (entry.is_raw() && entry.is_as_saved()) return entry.raw;
  if (entry.state != Entry::State::encoded) return {};
  const Plan::Candidate& by = entry.plan().candidates[entry.candidate];
  const bool is_exact = !by.approximates && by.codec->restores() == codecs::Reads::values;
  return is_exact ? holdings_.of(entry).decode(entry, codecs::Reads::values) : c10::Storage();
}

std::vector<ExactValues::Trial> ExactValues::trials(Entry& entry, const GradientProbe& probe) {
  const auto plans = this->plans(entry);
  const EntryWork work(entry);
  std::vector<Trial> trials;
  const c10::Storage mixed = probe.mixed_values(entry);
  const c10::Storage exact = mixed ? mixed : held(entry);
  if (!exact) return trials;
  const codecs::RandomKey key = {policy_.settings().seed, entry.id, entry.step};
  for (const auto& [index, plan] : plans) {
    if (plan->candidates.empty()) continue;
    auto values = holdings_.of(entry).try_out(entry, exact, plan->candidates.front(), key);
    if (!values) continue;
    if (mixed) keep_part_alone(values, mixed, *entry.sample);
    trials.push_back({index, std::move(values)});
  }
  return trials;
}

}  // namespace cinch::hooks
