// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/planner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/planning/described_entry.h"
#include "hooks/torch/stash/planning/entry_name.h"
#include "policy/deciding/describe_layer.h"

namespace cinch::hooks {
namespace {

// Bounds the members of a class.
constexpr std::uint32_t most_places = 1024;

// The most that an allocator may add to a block's size.
constexpr std::size_t alignment = 4096;

/// Whether all uses read values or nothing: decoded approximations serve these, but not sign reads.
bool reads_values_only(const Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->reads != codecs::Reads::values && use->reads != codecs::Reads::nothing) return false;
  }
  return true;
}

/// Gives the member a sized plan, unless the measured `bytes` are close to what `plan` expected.
void note(EntryClass::Member& member, const std::shared_ptr<const Plan>& plan, std::size_t bytes) {
  constexpr std::size_t small = 16;  // a difference of 1/16 is not worth a new plan
  const std::size_t expected = plan->stored_bytes;
  const std::size_t off = std::max(expected, bytes) - std::min(expected, bytes);
  if (off <= expected / small) return;
  if (plan != member.sized) member.unsized = plan;
  auto sized = std::make_shared<Plan>(*plan);
  sized->stored_bytes = bytes;
  sized->sized = true;
  member.sized = std::move(sized);
}

}  // namespace

void Planner::plan(Entry& entry, std::uint64_t growth) {
  set_class_key(entry, derives_, key_);
  auto known = classes_.find(key_);
  if (known == classes_.end()) {
    if (classes_.size() >= most_classes) forget_the_oldest();
    known = classes_.emplace(key_, std::make_shared<EntryClass>()).first;
  }
  EntryClass& of_kind = *known->second;
  if (of_kind.growth != growth) {
    of_kind.growth = growth;
    of_kind.seen = 0;
  }
  const std::uint32_t place = std::min(of_kind.seen++, most_places);
  if (place >= of_kind.members.size()) of_kind.members.resize(place + 1);
  entry.entry_class = known->second;
  entry.member = place;
  try {
    plan_as_member(entry, of_kind);
  } catch (...) {
    entry.entry_class.reset();
    entry.own_plan.reset();
    throw;
  }
}

// Forgets the classes that were planned longest ago, at least half of them. Those that a program
// has in each step keep what the guard and an adaptive policy know of them.
void Planner::forget_the_oldest() {
  std::vector<std::uint64_t> growths;
  for (const auto& [key, of_kind] : classes_) growths.push_back(of_kind->growth);
  const auto middle = growths.begin() + static_cast<std::ptrdiff_t>(growths.size() / 2);
  std::ranges::nth_element(growths, middle);
  std::erase_if(classes_, [&](const auto& each) { return each.second->growth <= *middle; });
}

void Planner::plan_as_member(Entry& entry, EntryClass& of_kind) {
  const std::uint32_t place = entry.member;
  entry.caution = of_kind.members[place].caution;
  take_awaited(of_kind.members[place]);
  entry.own_plan = chosen_plan(entry, of_kind.members[place]);
  const EntryClass::Member& member = of_kind.members[place];
  if (member.sized != nullptr && member.unsized == entry.own_plan) entry.own_plan = member.sized;
  if (harder_ != nullptr && entry.device != nullptr) {
    auto& harder = of_kind.harder_plans[entry.caution];
    if (harder == nullptr) harder = maker_.make(*harder_, entry, entry.caution, nullptr);
  }
  auto reads = entry.own_plan->reads.begin();
  for (Use* use = entry.first_use; use != nullptr; use = use->next) {
    use->reads = counts(*use, derives_) ? *reads++ : codecs::Reads::nothing;
  }
  EntryRow*& row = of_kind.members[place].row;
  if (row == nullptr) row = &statistics_.entries().row(name_of(entry));
  entry.row = row;
}

void Planner::note_size(const Entry& entry, std::size_t bytes) {
  EntryClass::Member& member = entry.entry_class->members[entry.member];
  if (entry.candidate == 0) tell_size(member, entry.own_plan, bytes);
  note(member, entry.own_plan, bytes);
}

void Planner::note_size(const Entry& entry, std::shared_ptr<const EncodeOutcome> outcome) {
  entry.entry_class->members[entry.member].awaited = {std::move(outcome), entry.own_plan,
                                                      entry.raw_bytes, entry.candidate == 0};
}

void Planner::take_awaited(EntryClass::Member& member) {
  if (!member.awaited) return;
  const EncodeOutcome& outcome = *member.awaited->outcome;
  if (!outcome.happened()) {
    if (!goes_by_sizes_) return;
    statistics_.waited_for_size();
    outcome.wait();
  }
  if (const auto bytes = outcome.bytes(member.awaited->raw_bytes)) {
    if (member.awaited->is_choice) tell_size(member, member.awaited->plan, *bytes);
    note(member, member.awaited->plan, *bytes);
  }
  member.awaited.reset();
}

void Planner::tell_size(const EntryClass::Member& member, const std::shared_ptr<const Plan>& plan,
                        std::size_t bytes) {
  if (member.layer == policy::no_layer) return;
  const bool is_latest =
      plan == member.plan || (plan == member.sized && member.unsized == member.plan);
  if (!is_latest || member.version != director_->version(member.layer)) return;
  director_->note_size(member.layer, bytes);
}

std::shared_ptr<const Plan> Planner::harder_plan(const Entry& entry) {
  const auto& harder = entry.entry_class->harder_plans[entry.caution];
  if (harder == nullptr || !harder->encodes()) return nullptr;
  // A quarter less, or it is not worth a second loss.
  const std::size_t now = entry.stored_bytes();
  if (harder->candidates.front().bound > now - now / 4) return nullptr;
  if (entry.is_raw()) return harder;
  // Encoding anew can't be undone if the data turn out not to be representable.
  return !harder->candidates.front().sized_by_data && reads_values_only(entry) ? harder : nullptr;
}

std::size_t Planner::harder_bytes(const Entry& entry) {
  const auto& harder = entry.entry_class->harder_plans[entry.caution];
  const bool serves = harder != nullptr && harder->encodes() &&
                      harder->candidates.front().bound < entry.plan().stored_bytes;
  if (!serves) return 0;
  // An encoded entry has to be decoded first.
  const bool anew = entry.plan().encodes() && reads_values_only(entry);
  return harder->device_bytes + (anew ? entry.raw_bytes + alignment : 0);
}

const std::shared_ptr<const Plan>& Planner::chosen_plan(const Entry& entry,
                                                        EntryClass::Member& member) {
  if (director_ != nullptr && !member.described) {
    const DescribedEntry described(entry, derives_);
    if (auto layer = policy::describe_layer(policy_, *director_, described.entry)) {
      member.layer = director_->add(std::move(*layer));
    }
    member.described = true;
  }
  if (member.layer == policy::no_layer) {
    auto& plan = entry.entry_class->plans[entry.caution];
    if (plan == nullptr) plan = maker_.make(policy_, entry, entry.caution, nullptr);
    return plan;
  }
  const std::uint32_t version = director_->version(member.layer);
  if (member.plan == nullptr || member.version != version || member.plan_caution != entry.caution) {
    member.plan = maker_.make(policy_, entry, entry.caution, &director_->choice(member.layer));
    member.version = version;
    member.plan_caution = entry.caution;
  }
  return member.plan;
}

}  // namespace cinch::hooks
