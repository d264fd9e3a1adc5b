// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/device_rescue.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <ranges>
#include <utility>
#include <vector>

#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/on_device/on_device.h"
#include "hooks/torch/stash/planning/planner.h"

namespace cinch::hooks {
namespace {

// Changes the random draw for values that were rounded stochastically before. Else the second error
// would depend on the first.
constexpr std::uint32_t second_draw = 0x9E3779B9U;

/// Whether others may be derived from the entry's values as they were: they may have to be exact.
/// @pre entry.mutex() and the stash's lock are held, the entry is raw or encoded
bool is_exact_source(const Entry& entry) {
  if (!entry.is_raw() && held_by(entry).approximates) return false;
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->is_recipes) return true;
  }
  return false;
}

bool is_being_read(const Entry& entry) {
  if (entry.decoded == nullptr) return false;
  return entry.decoded->ahead || entry.decoded->lent ||
         std::ranges::any_of(entry.decoded->alive,
                             [](const auto& alive) { return !alive.expired(); });
}

/// The bytes that a just encoded entry takes. If the encoded size is not known beforehand, the host
/// waits for it, since there is no memory to hold more for a while.
/// @return 0 when the encoding did not serve and was given up
std::size_t take_outcome_now(Entry& entry, const Plan::Candidate& candidate) {
  OnDevice& held = *entry.device;
  if (held.outcome == nullptr) return candidate.bound;
  held.outcome->wait();
  const auto needed = held.outcome->bytes(candidate.bound + 1);
  held.outcome = nullptr;
  if (needed) return shrink(entry, *needed) ? *needed : candidate.bound;
  held.encoded = {};
  held.encoding.reset();
  return 0;
}

}  // namespace

std::size_t DeviceRescue::give_up_read_ahead(int device, std::size_t bytes) {
  std::size_t freed = 0;
  std::vector<Entry*> copies;
  {
    const std::lock_guard lock(stash_.lists.mutex);
    copies = stash_.read_ahead.take_all(device);
  }
  for (Entry* entry : copies) {
    if (freed < bytes) freed += give_up_read_ahead(*entry);
    stash_.keeper.drop_holder(*entry);
  }
  return freed;
}

// Frees what was read ahead of the entry; backward will read it itself. @return bytes freed
std::size_t DeviceRescue::give_up_read_ahead(Entry& entry) {
  c10::Storage storage;  // this and `fetched` are freed after the locks
  c10::DataPtr fetched;
  std::size_t freed = 0;
  {
    const EntryWork work(entry);
    {
      const std::lock_guard stash_lock(stash_.lists.mutex);
      stash_.read_ahead.forget(entry);
    }
    if (entry.decoded != nullptr && entry.decoded->ahead) {
      storage = std::move(entry.decoded->ahead);
      entry.decoded->ahead = {};
      if (storage.use_count() == 1) freed += entry.raw_bytes;
    }
    OnDevice& held = *entry.device;
    if (held.on_host != nullptr && held.encoded.get() != nullptr) {
      fetched = std::move(held.encoded);
      held.encoded = {};
      freed += entry.encoded_bytes;
    }
  }
  return freed;
}

std::size_t DeviceRescue::give_up_samples(int device, std::size_t bytes) {
  std::size_t freed = 0;
  while (freed < bytes) {
    Entry* oldest = nullptr;
    {
      const std::lock_guard lock(stash_.lists.mutex);
      oldest = stash_.queues.sampled.oldest(device);
      if (oldest == nullptr) break;
      stash_.queues.sampled.remove(*oldest);
      ++oldest->holders;
    }
    freed += give_up_sample(*oldest);
    stash_.keeper.drop_holder(*oldest);
  }
  return freed;
}

// pre: the entry was taken out of its queue
std::size_t DeviceRescue::give_up_sample(Entry& entry) {
  std::unique_ptr<GuardSample> sample;  // freed after the locks
  {
    const EntryWork work(entry);
    const std::lock_guard stash_lock(stash_.lists.mutex);
    sample = stash_.looks.take_sample(entry);
    stash_.lists.held.shrink(entry, entry.raw_bytes);
    stash_.lists.note_change();
    if (entry.first_use != nullptr) stash_.enqueue(entry);
  }
  return sample->exact.use_count() == 1 ? entry.raw_bytes : 0;
}

std::size_t DeviceRescue::encode_harder(int device, std::size_t bytes) {
  struct Held {
    Entry* entry;
    EntryQueue* queue;
    std::size_t to_decode;  // bytes of its values; 0 for a raw entry
  };
  std::vector<Held> found;
  std::vector<Held> order;
  {
    const std::lock_guard lock(stash_.lists.mutex);
    for (EntryQueue* queue :
         {&stash_.queues.leaving, &stash_.queues.movable, &stash_.queues.staying}) {
      queue->for_each([&](Entry& entry) {
        const bool serves =
            entry.device_index() == device && Planner::harder_plan(entry) != nullptr;
        if (serves) found.push_back({&entry, queue, entry.is_raw() ? 0 : entry.raw_bytes});
      });
    }
    order = found;
    // Out of their queues, no other thread moves them meanwhile.
    for (const Held& held : found) {
      held.queue->remove(*held.entry);
      ++held.entry->holders;
    }
  }
  if (found.empty()) return 0;
  std::ranges::stable_sort(order, {}, &Held::to_decode);
  const std::size_t reserved = reserve_.release(device);
  std::size_t freed = 0;
  for (const Held& held : order) {
    if (freed >= bytes + reserved) break;
    freed += encode_harder(*held.entry);
  }
  {
    const AtWork here;  // ensure() must not start another rescue
    reserve_.ensure(device, reserved);
  }
  {
    const std::lock_guard lock(stash_.lists.mutex);
    for (const Held& held : std::views::reverse(found)) {
      if (held.entry->first_use != nullptr) held.queue->push_front(*held.entry);
    }
  }
  for (const Held& held : found) stash_.keeper.drop_holder(*held.entry);
  return freed;
}

// Returns the bytes freed. pre: the entry was taken out of its queue
std::size_t DeviceRescue::encode_harder(Entry& entry) {
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  std::size_t saved = 0;
  {
    const EntryWork work(entry);
    std::shared_ptr<const Plan> harder;
    {
      const std::lock_guard stash_lock(stash_.lists.mutex);
      if (entry.first_use != nullptr && !entry.ahead) harder = Planner::harder_plan(entry);
      if (harder != nullptr && is_exact_source(entry) && harder->approximates()) harder = nullptr;
    }
    if (harder == nullptr) return 0;
    const bool was_raw = entry.is_raw();
    if (entry.captured || (was_raw ? !entry.is_solely_ours() : is_being_read(entry))) return 0;
    const Plan::Candidate& candidate = harder->candidates.front();
    const Stopwatch watch;
    if (!encode_anew(entry, candidate, freed)) return 0;
    const std::shared_ptr<const Plan> old = entry.own_plan;
    OpTotals& before = was_raw ? *old->kept : *old->candidates[entry.candidate].totals;
    const std::size_t bytes = entry.stored_bytes();
    const std::size_t held = take_outcome_now(entry, candidate);
    if (held == 0) {
      entry.raw = std::exchange(freed, {});
      return 0;
    }
    saved = bytes - held;
    if (was_raw && old->candidates.empty()) {
      stash_.statistics.compressed_after_all(reason_to_keep(*old), entry.raw_bytes);
    }
    before.take_back(entry.raw_bytes, bytes);
    entry.row->take_back(entry.raw_bytes, bytes);
    {
      const std::lock_guard stash_lock(stash_.lists.mutex);
      const bool counted = entry.counted;
      stash_.lists.remove_planned(entry);
      entry.own_plan = std::move(harder);
      if (counted) stash_.lists.add_planned(entry);
      entry.state = Entry::State::encoded;
      entry.candidate = 0;
      entry.encoded_bytes = held;
      entry.device->exact_bytes = 0;
      stash_.lists.held.shrink(entry, saved);
      stash_.lists.note_change();
    }
    count(entry, *candidate.totals, held, watch.nanoseconds());
  }
  if (freed) stash_.keeper.free_later(std::move(freed));
  return saved;
}

// Encodes a raw entry's storage, or the decoded values of an encoded one. Moves them to `freed`.
// pre: entry.mutex() is held, the entry is raw or encoded, and nobody reads it
bool DeviceRescue::encode_anew(Entry& entry, const Plan::Candidate& candidate,
                               c10::Storage& freed) {
  if (entry.is_raw()) {
    if (!encoder_.encode(entry, candidate, stash_.policy.settings().seed)) return false;
    freed = std::move(entry.raw);
    return true;
  }
  try {
    entry.raw = decode_on_device(entry, codecs::Reads::values, entry.device->saved_on);
  } catch (const std::exception&) {
    return false;  // no memory for the decoded values
  }
  const bool encoded =
      encoder_.encode(entry, candidate, stash_.policy.settings().seed ^ second_draw);
  freed = std::move(entry.raw);
  entry.raw = {};
  return encoded;
}

}  // namespace cinch::hooks
