// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/entry_lists.h"

#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {
namespace {

// Raw bytes of what the program saved.
std::size_t saved_bytes(const Entry& entry) {
  return entry.unsaved ? 0 : entry.raw_bytes;
}

// Whether a node reads the entry, or a recipe of an entry that is read.
bool is_read(const Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (!use->is_recipes || static_cast<const RecipesUse*>(use)->recipe->is_read) return true;
  }
  return false;
}

}  // namespace

EntryLists::EntryLists() {
  register_fork_lock(mutex);
}

void EntryLists::add_use(Entry& entry, Use& use) noexcept {
  entry.append(use);
  note_read(entry);
}

void EntryLists::remove_use(Entry& entry, Use& use) noexcept {
  entry.remove(use);
  note_unread(entry);
}

// The entry got a use, or a recipe that has one of it is read again.
void EntryLists::note_read(Entry& entry) noexcept {
  if (entry.own_plan != nullptr) add_planned(entry);
  if (entry.recipe == nullptr || std::exchange(entry.recipe->is_read, true)) return;
  for (const Recipe::Source& source : entry.recipe->sources()) note_read(*source.entry);
}

// The entry lost a use, or a recipe that has one of it is not read any more.
void EntryLists::note_unread(Entry& entry) noexcept {
  // What is in the window counts until it leaves that.
  if (entry.place == Entry::Place::window || is_read(entry)) return;
  remove_planned(entry);
  if (entry.recipe == nullptr || !std::exchange(entry.recipe->is_read, false)) return;
  for (const Recipe::Source& source : entry.recipe->sources()) note_unread(*source.entry);
}

void EntryLists::add_planned(Entry& entry) noexcept {
  if (!std::exchange(entry.counted, true)) planned.add(entry.plan(), saved_bytes(entry));
}

void EntryLists::remove_planned(Entry& entry) noexcept {
  if (std::exchange(entry.counted, false)) planned.remove(entry.plan(), saved_bytes(entry));
}

std::size_t EntryLists::note_less_held(const Entry& entry, std::size_t before) {
  const std::size_t less = before - entry.stored_bytes();
  held.shrink(entry, less);
  note_change();
  return less;
}

bool EntryLists::is_waiting(const c10::Storage& storage) const {
  const std::lock_guard lock(mutex);
  return waiting.find(storage) != nullptr;
}

bool EntryLists::has_uses(const Entry& entry) const {
  const std::lock_guard lock(mutex);
  return entry.first_use != nullptr;
}

EntryLists::Peak EntryLists::peak_so_far() const {
  const std::lock_guard lock(mutex);
  return peak;
}

std::uint64_t EntryLists::bytes() const {
  const std::lock_guard lock(mutex);
  return held.all();
}

std::uint64_t EntryLists::settled_bytes(int device) const {
  const std::lock_guard lock(mutex);
  return held.on_device(device);
}

std::uint64_t EntryLists::most_settled_bytes(int device) const {
  const std::lock_guard lock(mutex);
  return held.most_on_device(device);
}

void EntryLists::fill_timeline(telemetry::Report& report) const {
  const std::lock_guard lock(mutex);
  timeline.fill(report);
}

}  // namespace cinch::hooks
