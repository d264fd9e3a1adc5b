// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/settler.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/entry/entry_work.h"

namespace cinch::hooks {
namespace {

// Bytes that may wait for the side thread even if the window's limit is lower: keeps it busy.
constexpr std::size_t least_waiting = std::size_t{16} << 20;

}  // namespace

void Settler::settle_all(const Entries& ready) noexcept {
  if (ready.empty()) return;
  std::size_t most_waiting = least_waiting;
  if (side_.is_on()) {
    const std::lock_guard lock(lists_.mutex);
    most_waiting = std::max(policy_.window_limit(), least_waiting);
  }
  for (Entry* entry : ready) {
    // What the program owns it may change as soon as it runs on.
    const bool on_side_thread = side_.is_on() && entry->plan().encodes() &&
                                holdings_.of(*entry).is_for_side_thread() &&
                                (!entry->shared || entry->is_solely_ours());
    if (on_side_thread && side_.settle(*entry, most_waiting)) continue;
    settle(*entry, torch_parallel_for, EntryKeeper::When::room);
  }
}

std::size_t Settler::encode_early(int device, std::size_t bytes) {
  const std::uint64_t before = lists_.bytes();
  Entries ready;
  {
    const std::lock_guard lock(lists_.mutex);
    intake_.collect(lists_.waiting.owned().size(), nullptr, ready);
    intake_.clear_window(device, bytes, ready);
  }
  // Not on the side thread: the memory is wanted now.
  holdings_.of_device(device).settle_now(ready, device, bytes);
  const std::uint64_t after = lists_.bytes();
  return before > after ? before - after : 0;
}

void Settler::settle(Entry& entry, codecs::ParallelFor parallel_for,
                     EntryKeeper::When when) noexcept {
  Holding& holding = holdings_.of(entry);
  Holding::Room room;
  if (dry_run_ == nullptr) {
    const auto found = holding.room_for(entry, when);
    if (!found) return;
    room = *found;
  }
  if (entry.recipe != nullptr) derivation_.look_at_sources(entry);
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  std::string_view kept_because;
  bool wanted = true;
  bool again = false;
  {
    const EntryWork work(entry);
    wanted = lists_.has_uses(entry);
    if (wanted) {
      kept_because = no_memory;
      if_memory_allows([&] { kept_because = carry_out(entry, freed, parallel_for); });
      if (!kept_because.empty()) entry.state = Entry::State::kept;
    }
    holding.carried_out(entry, room, !kept_because.empty());
    again = room.bytes != 0 && kept_because == no_memory;
    if (again) entry.state = Entry::State::pending;
  }
  if (again) {
    // Entries of unknown size hold their upper bound; shrinking them may free enough for this one.
    if (holding.await_room(entry, room)) {
      return settle(entry, parallel_for, EntryKeeper::When::now);
    }
    const EntryLock lock(entry);
    entry.state = Entry::State::kept;
  }
  if (!kept_because.empty()) {
    statistics_.passed_through(kept_because, entry.raw_bytes);
    count(entry, *entry.plan().kept, entry.raw_bytes, 0);
  }
  finish(entry, wanted);
  if (freed) free_later(std::move(freed));
}

// Accounts for an entry whose plan was carried out, and gives up one hold on it.
void Settler::finish(Entry& entry, bool wanted) {
  const bool is_derived =
      entry.state == Entry::State::derived || (dry_run_ != nullptr && dry_run_->has_derived(entry));
  const bool is_stored = entry.recipe != nullptr && !is_derived;
  bool releases = false;
  bool is_given_up = false;
  {
    const std::lock_guard lock(lists_.mutex);
    if (is_stored) entry.recipe->depth = 0;
    releases = is_stored && !entry.recipe->keeps_sources;
    lists_.held.settling -= entry.raw_bytes;
    lists_.held.add(entry);
    lists_.note_change();
    if (entry.sample == nullptr) looks_.stop_watching(entry);
    entry.place = Entry::Place::settled;
    if (wanted) holdings_.of(entry).settled(entry);
    // Here, to save a second lock, unless it is the last hold or the recipe is still needed.
    is_given_up = !releases && entry.holders > 1;
    if (is_given_up) --entry.holders;
  }
  if (is_given_up) return;
  if (releases) derivation_.release_sources(*entry.recipe);
  keeper_.drop_holder(entry);
}

// Returns why the entry has to be kept, or nothing. If it throws, the entry is unchanged.
// pre: entry.mutex() is held, the entry is pending
std::string_view Settler::carry_out(Entry& entry, c10::Storage& freed,
                                    codecs::ParallelFor parallel_for) {
  if (!entry.is_as_saved()) return "changed by the program after it was saved";
  if (dry_run_ != nullptr) {
    dry_run_->measure(entry, parallel_for);
    return "a dry run keeps everything";
  }
  if (!(entry.shared || entry.is_solely_ours()) || entry.captured) {
    return "read by backward when it was to be encoded";
  }
  return holdings_.of(entry).encode(entry, freed, parallel_for);
}

// Freeing a storage that a Python object refers to takes the interpreter's lock, for which the side
// thread must never wait.
void Settler::free_later(c10::Storage storage) noexcept {
  if (!side_.is_on() || storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() == nullptr) {
    return;
  }
  const std::lock_guard lock(lists_.mutex);
  if (if_memory_allows([&] { make_room_for_one(freed_later_); })) {
    freed_later_.push_back(std::move(storage));
    return;
  }
  static_cast<void>(storage.unsafeReleaseStorageImpl());  // no memory to queue it: never freed
}

}  // namespace cinch::hooks
