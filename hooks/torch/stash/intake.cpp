// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/intake.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/program/op_context.h"

namespace cinch::hooks {
Entry& Intake::find_or_add(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  Holding& holding = holdings_.of(storage.device());
  if (Entry* known = lists_.waiting.find(storage)) {
    holding.saved(*known, storage);
    return *known;
  }
  read_ahead_.make_room();
  auto entry = std::make_unique<Entry>();
  entry->raw = storage;
  entry->identity = StorageIdentity(storage);
  entry->raw_bytes = storage.nbytes();
  entry->step = static_cast<std::uint32_t>(optimizer_steps());
  holding.saved(*entry, storage);
  if (tensor.is_view()) entry->cover = std::make_unique<Geometry>(tensor._base());
  lists_.waiting.add(*entry);
  entry->id = lists_.next_id++;
  read_ahead_.add(*entry);
  ++lists_.alive;
  return *entry.release();
}

// Plans those of the next `at_most` owned entries for which `may_leave(entry)` holds, but `but`.
template <typename F>
void Intake::plan_owned(std::size_t at_most, const Entry* but, Entries& ready, const F& may_leave) {
  WaitingEntries& waiting = lists_.waiting;
  for (std::size_t looked = std::min(at_most, waiting.owned().size());
       looked > 0 && !waiting.owned().empty(); --looked) {
    Entry& entry = waiting.next_owned();
    // If there is no memory to plan it, the entry stays owned and is looked at again.
    const bool leaves = &entry != but && may_leave(entry) && plan(entry, ready);
    if (!leaves) waiting.skip_owned();
  }
}

void Intake::take_from_program(const Entry* but, Entries& ready) {
  plan_owned(lists_.waiting.owned().size(), but, ready, [&](const Entry& entry) {
    return entry.raw.use_count() > 1 && derivation_.takes_from_program(entry);
  });
}

void Intake::collect(std::size_t at_most, const Entry* but, Entries& ready) {
  plan_owned(at_most, but, ready, [&](const Entry& entry) {
    return (entry.raw.use_count() == 1 || derivation_.takes_from_program(entry)) &&
           !derivation_.awaits_others(entry);
  });
  const std::size_t limit = policy_.window_limit();
  while (lists_.held.window > limit) {
    Entry& oldest = lists_.waiting.oldest();
    if (&oldest == but || !if_memory_allows([&] { make_room_for_one(ready); })) return;
    leave_window(oldest, ready);
  }
}

void Intake::clear_window(int device, std::size_t bytes, Entries& ready) {
  const auto& window = lists_.waiting.window();
  Entries waiting;
  if_memory_allows([&] { waiting.assign(window.begin(), window.end()); });
  std::size_t leaving = 0;
  for (Entry* entry : waiting) {
    if (leaving >= bytes) break;
    if (entry == nullptr || entry->device_index() != device) continue;
    if (!if_memory_allows([&] { make_room_for_one(ready); })) break;
    leaving += entry->raw_bytes;
    leave_window(*entry, ready);
    looks_.stop_watching(*entry);  // its exact values would take memory
  }
}

// Plans an owned entry, which then enters the window or starts settling.
// @return false when there is no memory for that; nothing has then changed
bool Intake::plan(Entry& entry, Entries& ready) noexcept {
  const bool is_shared = entry.raw.use_count() > 1;
  const bool prepared = if_memory_allows([&] {
    make_room_for_one(ready);
    lists_.waiting.make_place();
    if (is_shared) lists_.shared.add(entry);
  });
  if (!prepared) return false;
  const bool planned = if_memory_allows([&] {
    magnified_.mark(entry);
    policy_.planner().plan(entry, growth_);
  });
  const bool waits = planned && entry.plan().encodes() && !is_dry_run_;
  if (!waits) lists_.waiting.give_up_place();
  if (!planned) {
    if (is_shared) lists_.shared.remove(entry);
    return false;
  }
  entry.shared = is_shared;
  lists_.waiting.remove_owned(entry);
  entry.cover.reset();
  if (entry.unsaved) lists_.held.unsaved += entry.raw_bytes;
  lists_.add_planned(entry);
  if (entry.recipe != nullptr) {
    using enum AttentionPair::Fate;
    Derivation::note_fate(*entry.recipe, entry.plan().derived == nullptr ? stored : derived);
  }
  holdings_.of(entry).planned(entry);
  adaptation_.add(entry, entry.plan().stored_bytes - entry.plan().offloaded_bytes(),
                  lists_.planned.raw_at_peak());
  if (!waits) {
    start_settling(entry, ready);
    return true;
  }
  entry.place = Entry::Place::window;
  lists_.waiting.enter_window(entry);
  lists_.planned.enter_window(entry.plan());
  return true;
}

void Intake::forget_in_window(Entry& entry) {
  lists_.waiting.leave_window(entry);
  lists_.planned.leave_window(entry.plan());
}

// pre: `ready` has room for one
void Intake::leave_window(Entry& entry, Entries& ready) {
  forget_in_window(entry);
  looks_.begin(entry);
  start_settling(entry, ready);
}

void Intake::start_settling(Entry& entry, Entries& ready) {
  entry.place = Entry::Place::settling;
  if (entry.recipe != nullptr) Derivation::note_leaving(*entry.recipe);
  lists_.held.settling += entry.raw_bytes;
  ++entry.holders;
  ready.push_back(&entry);
}

}  // namespace cinch::hooks
