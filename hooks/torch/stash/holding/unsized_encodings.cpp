// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/unsized_encodings.h"

#include <memory>
#include <mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {
namespace {

// Whether copying saves an eighth or more; less is not worth the time.
bool is_worth_shrinking(std::size_t held, std::size_t needed) {
  constexpr std::size_t share = 8;
  return held - needed >= held / share;
}

// The bytes of source and encoding that an entry holds until its encoded size is known; 0 if the
// size is known beforehand.
std::size_t bytes_until_sized(const Entry& entry) {
  const Plan& plan = entry.plan();
  if (!plan.encodes()) return 0;
  const Plan::Candidate& candidate = plan.candidates.front();
  return candidate.sized_by_data ? entry.raw_bytes + candidate.bound : 0;
}

// False for entries of a parent process: a forked child can't ask their device.
bool is_ours(const Entry* entry) {
  return entry != nullptr && !entry->device->is_a_parents();
}

}  // namespace

UnsizedEncodings::UnsizedEncodings(const DeviceParts& parts) : stash_(parts) {
  register_fork_lock(bytes_.mutex());
}

std::optional<Holding::Room> UnsizedEncodings::room_for(Entry& entry, EntryKeeper::When when) {
  const std::size_t bytes = bytes_until_sized(entry);
  if (bytes == 0) return Holding::Room{};
  bool taken = begin(entry, bytes);
  if (!taken && when == EntryKeeper::When::room && has_put_off_too_much(entry)) {
    stash_.statistics.waited_for_size();
    while (!taken && bytes_.await_oldest(entry.device_index())) {
      await_outcomes(entry.device_index(), 0);
      taken = begin(entry, bytes);
    }
  }
  if (taken || when == EntryKeeper::When::now) return Holding::Room{bytes, taken};
  put_off(entry);
  return std::nullopt;
}

bool UnsizedEncodings::begin(const Entry& entry, std::size_t bytes) {
  return bytes_.begin(entry.device_index(), bytes, stash_.policy.in_flight_limit());
}

// Whether putting `entry` off, too, would exceed the limit, and the host may wait instead: not
// within a capture, whose work does not run yet.
bool UnsizedEncodings::has_put_off_too_much(const Entry& entry) const {
  if (is_capturing(entry.device->saved_on.device())) return false;
  const std::uint64_t limit = stash_.policy.in_flight_limit();
  const std::lock_guard lock(stash_.lists.mutex);
  return stash_.queues.put_off.bytes(entry.device_index()) + entry.raw_bytes > limit;
}

void UnsizedEncodings::carried_out(Entry& entry, const Holding::Room& room) {
  if (room.taken) bytes_.enqueued(entry.device_index(), room.bytes, entry.device->outcome);
}

// Queues a settling entry for which there is no room yet, and gives up one hold on it.
void UnsizedEncodings::put_off(Entry& entry) {
  {
    const std::lock_guard lock(stash_.lists.mutex);
    stash_.queues.put_off.push_back(entry);
  }
  stash_.keeper.drop_holder(entry);
}

// Unqueues an entry that was put off. @return whether it was. pre: the stash's lock is held
bool UnsizedEncodings::take_back(Entry& entry) {
  if (entry.device->queue != &stash_.queues.put_off) return false;
  stash_.queues.put_off.remove(entry);
  return true;
}

void UnsizedEncodings::settle_put_off(Entry& entry) {
  if (stash_.queues.put_off.is_empty()) return;
  {
    const std::lock_guard lock(stash_.lists.mutex);
    if (entry.device->is_a_parents() || !take_back(entry)) return;
    ++entry.holders;
  }
  stash_.keeper.settle(entry, torch_parallel_for, EntryKeeper::When::now);
}

bool UnsizedEncodings::settle_put_off(int device) {
  if (stash_.queues.put_off.is_empty()) return false;
  const std::uint64_t limit = stash_.policy.in_flight_limit();
  Entry* oldest = nullptr;
  {
    const std::lock_guard lock(stash_.lists.mutex);
    oldest = stash_.queues.put_off.oldest(device);
    if (!is_ours(oldest)) return false;
    if (!bytes_.has_room(device, bytes_until_sized(*oldest), limit)) return false;
    take_back(*oldest);
    ++oldest->holders;
  }
  stash_.keeper.settle(*oldest, torch_parallel_for, EntryKeeper::When::now);
  return true;
}

void UnsizedEncodings::take_outcomes(int device) {
  await_outcomes(device, 0);
  while (settle_put_off(device)) {
  }
}

std::size_t UnsizedEncodings::await_outcomes(int device, std::size_t bytes) {
  std::size_t freed = 0;
  while (!stash_.queues.unsized.is_empty()) {
    Entry* oldest = nullptr;
    std::shared_ptr<const EncodeOutcome> awaited;
    {
      const std::lock_guard lock(stash_.lists.mutex);
      oldest = stash_.queues.unsized.oldest(device);
      if (!is_ours(oldest)) return freed;
      if (!oldest->device->outcome->happened()) awaited = oldest->device->outcome;
      if (awaited != nullptr && freed >= bytes) return freed;
      stash_.queues.unsized.remove(*oldest);
      ++oldest->holders;
    }
    if (awaited != nullptr) awaited->wait();
    freed += take_outcome(*oldest);
    stash_.keeper.drop_holder(*oldest);
    bytes_.look(device);
  }
  return freed;
}

// Applies the outcome of the entry. @return bytes freed
// pre: the entry was taken out of its queue, and its outcome has arrived
std::size_t UnsizedEncodings::take_outcome(Entry& entry) {
  // In this order: the first step frees memory that the second needs for the smaller copy.
  const auto freed = give_up_source_or_encoding(entry);
  return freed ? *freed + shrink_to_size(entry) : 0;
}

// Returns the bytes freed; nothing when both have to stay for good.
std::optional<std::size_t> UnsizedEncodings::give_up_source_or_encoding(Entry& entry) {
  // Freed after the locks, since freeing may wait for the interpreter.
  c10::Storage source;
  c10::Storage ahead;
  std::unique_ptr<GuardSample> sample;
  std::size_t freed = 0;
  {
    const EntryWork work(entry);
    OnDevice& held = *entry.device;
    if (held.graph_chooses) return std::nullopt;
    const auto needed = held.outcome->bytes(entry.raw_bytes);
    if (!needed) held.encoded = {};
    const std::lock_guard stash_lock(stash_.lists.mutex);
    const std::size_t before = entry.stored_bytes();
    held.outcome = nullptr;
    source = std::exchange(held.source, {});
    if (needed) {
      held.exact_bytes = *needed;
    } else {
      entry.raw = std::exchange(source, {});
      entry.state = Entry::State::kept;
      entry.encoded_bytes = 0;
      stash_.read_ahead.forget(entry);
      if (entry.decoded != nullptr) ahead = std::exchange(entry.decoded->ahead, {});
      sample = stash_.looks.take_sample(entry);
    }
    freed = stash_.lists.note_less_held(entry, before);
  }
  if (source) stash_.keeper.free_later(std::move(source));
  return freed;
}

// Shrinks the encoding, corrects the report, and queues the entry for rescues and offload.
std::size_t UnsizedEncodings::shrink_to_size(Entry& entry) {
  const Plan& plan = entry.plan();
  const std::size_t whole = plan.candidates[entry.candidate].bound;
  const EntryWork work(entry);
  const bool encoded = entry.state == Entry::State::encoded;
  const std::size_t needed = entry.device->exact_bytes;
  const bool shrinks =
      encoded && is_worth_shrinking(whole, needed) && !entry.captured && shrink(entry, needed);
  std::size_t freed = 0;
  {
    const std::lock_guard stash_lock(stash_.lists.mutex);
    const std::size_t before = entry.stored_bytes();
    if (shrinks) entry.encoded_bytes = needed;
    freed = stash_.lists.note_less_held(entry, before);
    if (entry.first_use != nullptr) stash_.enqueue(entry);
  }
  OpTotals& totals = *plan.candidates[entry.candidate].totals;
  totals.take_back(entry.raw_bytes, whole);
  entry.row->take_back(entry.raw_bytes, whole);
  if (encoded) {
    count(entry, totals, entry.encoded_bytes, 0);
  } else {
    stash_.statistics.passed_through(reason_not_to_encode(plan), entry.raw_bytes);
    count(entry, *plan.kept, entry.raw_bytes, 0);
  }
  return freed;
}

}  // namespace cinch::hooks
