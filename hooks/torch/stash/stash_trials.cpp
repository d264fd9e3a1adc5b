// SPDX-License-Identifier: Apache-2.0
// What the stash has of exact values, for adaptive policies and their trials.
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/round_trip.h"
#include "hooks/torch/stash/stash.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {

std::vector<float> Stash::plane_ranges(Entry& entry) {
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  if (dry_run_ != nullptr) return dry_run_->plane_ranges(entry);
  if (entry.planes != nullptr && !entry.planes->ranges.empty()) return entry.planes->ranges;
  const bool is_there = entry.is_raw() && entry.own_plan != nullptr && entry.is_as_saved();
  if (!is_there || entry.plan().candidates.empty()) return {};
  const Plan::Candidate& candidate = entry.plan().candidates.front();
  if (candidate.group == 0) return {};
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
      const policy::Director& director = *adaptation_.director();
      for (const std::uint32_t index : director.trials(layer)) {
        plans.emplace_back(index, planner_->plan_for(entry, director.layer(layer).menu[index]));
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
