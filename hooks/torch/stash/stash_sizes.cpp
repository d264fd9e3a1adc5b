// SPDX-License-Identifier: Apache-2.0
// What the stash does with entries of devices whose encoded sizes only the data decide. They are
// encoded into memory for the most that it may take, and their sources stay until the host sees
// what it took; then one of the two goes, and what was encoded shrinks. The host looks whenever the
// stash is at work anyway, and waits only where memory has run out. What is held so is bounded;
// what finds no room is encoded later, when there is some or when backward reads it, and not left
// out: what backward reads must not depend on how fast a device is.
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// A copy for the sake of less than an eighth is not worth its time.
bool is_worth_shrinking(std::size_t held, std::size_t needed) {
  constexpr std::size_t share = 8;
  return held - needed >= held / share;
}

// In a forked child there is no device to ask.
bool is_ours(const Entry* entry) {
  return entry != nullptr && !entry->device->is_a_parents();
}

}  // namespace

// What is held at once of an entry whose encoded size only the data decide, until that is known; 0:
// it is not such a one.
std::size_t Stash::bytes_until_sized(const Entry& entry) const {
  const Plan& plan = entry.plan();
  if (dry_run_ != nullptr || entry.device == nullptr || !plan.encodes()) return 0;
  const Plan::Candidate& candidate = plan.candidates.front();
  return candidate.sized_by_data ? entry.raw_bytes + candidate.bound : 0;
}

// Gives up one hold on an entry that is settling, for which there is no room yet.
void Stash::put_off(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    put_off_.push_back(entry);
  }
  drop_holder(entry, nullptr);
}

// @return whether it was put off, and isn't any more. pre: mutex_ is held
bool Stash::take_back(Entry& entry) {
  if (entry.device == nullptr || entry.device->queue != &put_off_) return false;
  put_off_.remove(entry);
  return true;
}

// What backward reads is encoded first, room or not.
void Stash::settle_put_off(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    if (entry.device->is_a_parents() || !take_back(entry)) return;
    ++entry.holders;
  }
  settle(entry, torch_parallel_for, When::now);
}

// Encodes the oldest that was put off, if there is room for it. @return whether that was done
bool Stash::settle_put_off(int device) {
  Entry* oldest = nullptr;
  {
    const std::lock_guard lock(mutex_);
    oldest = put_off_.oldest(device);
    if (!is_ours(oldest)) return false;
    if (!unsized_bytes_.has_room(device, bytes_until_sized(*oldest), settings().in_flight_bytes)) {
      return false;
    }
    take_back(*oldest);
    ++oldest->holders;
  }
  settle(*oldest, torch_parallel_for, When::now);
  return true;
}

// Goes by what the host knows by now, and encodes what there is room for then. Doesn't wait.
void Stash::take_outcomes(int device) {
  await_outcomes(device, 0);
  while (settle_put_off(device)) {
  }
}

// Goes by what the host knows, in the order in which it was encoded, and waits for more until so
// many bytes are free. @return bytes freed
std::size_t Stash::await_outcomes(int device, std::size_t bytes) {
  std::size_t freed = 0;
  for (;;) {
    Entry* oldest = nullptr;
    std::shared_ptr<const EncodeOutcome> awaited;
    {
      const std::lock_guard lock(mutex_);
      oldest = unsized_.oldest(device);
      if (!is_ours(oldest)) return freed;
      if (!oldest->device->outcome->happened()) awaited = oldest->device->outcome;
      if (awaited != nullptr && freed >= bytes) return freed;
      unsized_.remove(*oldest);
      ++oldest->holders;
    }
    if (awaited != nullptr) awaited->wait();
    freed += take_outcome(*oldest);
    drop_holder(*oldest, nullptr);
    unsized_bytes_.look(device);
  }
}

// Goes by the outcome of the entry. @return bytes freed
// pre: the entry was taken out of its queue, and its outcome is known
std::size_t Stash::take_outcome(Entry& entry) {
  // What is free after the first is what the smaller copy of the second needs.
  const std::size_t freed = give_up_source_or_encoding(entry);
  return freed + shrink_to_size(entry);
}

// The entry's, of which less is held than before. pre: both locks are held
std::size_t Stash::note_less_held(const Entry& entry, std::size_t before) {
  const std::size_t less = before - entry.stored_bytes();
  held_.shrink(entry, less);
  note_change();
  return less;
}

std::size_t Stash::give_up_source_or_encoding(Entry& entry) {
  // Freed after the locks: that may wait for the interpreter.
  c10::Storage source;
  c10::Storage ahead;
  c10::DataPtr result;
  std::unique_ptr<GuardSample> sample;
  std::size_t freed = 0;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    OnDevice& held = *entry.device;
    const auto needed = held.outcome->bytes(entry.raw_bytes);
    if (!needed) held.encoded = {};
    const std::lock_guard stash_lock(mutex_);
    const std::size_t before = entry.stored_bytes();
    held.outcome = nullptr;
    result = std::move(held.result);
    source = std::exchange(held.source, {});
    if (needed) {
      held.exact_bytes = *needed;
    } else {
      entry.raw = std::exchange(source, {});
      entry.state = Entry::State::kept;
      entry.encoded_bytes = 0;
      read_ahead_.forget(entry);
      if (entry.decoded != nullptr) ahead = std::exchange(entry.decoded->ahead, {});
      sample = take_sample(entry);
    }
    freed = note_less_held(entry, before);
  }
  if (source) free_later(std::move(source));
  return freed;
}

// From here on the entry is one like others, in the report and for whoever wants memory.
std::size_t Stash::shrink_to_size(Entry& entry) {
  const Plan& plan = entry.plan();
  const std::size_t whole = plan.candidates[entry.candidate].bound;
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  const bool encoded = entry.state == Entry::State::encoded;
  const std::size_t needed = entry.device->exact_bytes;
  const bool shrinks =
      encoded && is_worth_shrinking(whole, needed) && !entry.captured && shrink(entry, needed);
  std::size_t freed = 0;
  {
    const std::lock_guard stash_lock(mutex_);
    const std::size_t before = entry.stored_bytes();
    if (shrinks) entry.encoded_bytes = needed;
    freed = note_less_held(entry, before);
    if (entry.first_use != nullptr) enqueue_for_host(entry);
  }
  OpTotals& totals = *plan.candidates[entry.candidate].totals;
  totals.take_back(entry.raw_bytes, whole);
  entry.row->take_back(entry.raw_bytes, whole);
  if (encoded) {
    count(entry, totals, entry.encoded_bytes, 0);
  } else {
    statistics_.passed_through(reason_not_to_encode(plan), entry.raw_bytes);
    count(entry, *plan.kept, entry.raw_bytes, 0);
  }
  return freed;
}

}  // namespace cinch::hooks
