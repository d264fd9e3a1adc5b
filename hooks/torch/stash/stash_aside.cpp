// SPDX-License-Identifier: Apache-2.0
// The stash and its side thread: what is decoded ahead of backward, and what that thread left.
#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// How far decoding looks ahead.
constexpr std::size_t most_ahead = 4;

// How far what was moved to the host is fetched ahead: a copy takes longer than a decoding, and the
// host is asked as often as backward reads.
constexpr std::size_t most_looked_at = 256;
constexpr std::uint64_t least_fetched = std::uint64_t{64} << 20;

}  // namespace

// With the side thread, an entry that waits for it is waited for: what backward reads must not
// depend on how far that thread got.
void Stash::await_settled(Entry& entry) {
  bool settling = false;
  {
    const std::lock_guard lock(mutex_);
    settling = entry.place == Entry::Place::settling;
  }
  if (settling && !side_.wait_for(entry)) settle_orphans();
}

// A device has no room for it in this growth.
void Stash::stop_reading_ahead() noexcept {
  const std::lock_guard lock(mutex_);
  no_room_ahead_ = growth_;
}

// pre: mutex_ is held
void Stash::forget_ahead(Entry& entry) noexcept {
  if (entry.ahead) ahead_bytes_ -= entry.raw_bytes;
  entry.ahead = false;
  if (entry.device == nullptr || !entry.device->fetched) return;
  fetched_bytes_ -= entry.offloaded_bytes();
  entry.device->fetched = false;
}

// Notes what backward reads, and has decoded and fetched ahead what it read next the last time.
void Stash::foresee(Entry& entry, const Use& use) noexcept {
  std::vector<SideThread::Job> jobs;
  Entries fetches;
  if_memory_allows([&] { choose_ahead(entry, use, jobs, fetches); });
  for (const auto& job : jobs) {
    constexpr auto never_wait = std::numeric_limits<std::size_t>::max();
    if (job.entry->device != nullptr) {
      work_aside(this, job);  // which only enqueues it
      continue;
    }
    bool taken = false;
    if_memory_allows([&] { taken = side_.submit(job, never_wait); });
    if (!taken) drop_holder(*job.entry, nullptr);
  }
  for (Entry* next : fetches) fetch_ahead(*next);
}

// Holds each entry that it adds to `jobs` and `fetches`, whether it throws or not.
void Stash::choose_ahead(Entry& entry, const Use& use, std::vector<SideThread::Job>& jobs,
                         Entries& fetches) {
  jobs.reserve(most_ahead);
  const std::lock_guard lock(mutex_);
  forget_ahead(entry);
  if (entry.id - growth_start_ >= by_position_.size()) return;
  const ReadOrder::Read read = {entry.id - growth_start_, use.reads};
  read_order_.add(read);
  const std::uint64_t most_fetched =
      std::min(std::max<std::uint64_t>(window_limit(), least_fetched), most_fetched_);
  const bool has_room = no_room_ahead_ != growth_;
  bool decodes = aside_;
  bool fetches_more = offloaded_bytes_ != 0 && has_room;
  std::size_t looked_at = 0;
  for (const ReadOrder::Read& next : read_order_.after(read)) {
    if (!decodes && !fetches_more) break;
    if (++looked_at > most_looked_at || next.position >= by_position_.size()) break;
    Entry* then = by_position_[next.position];
    const bool is_read = then != nullptr && then->place == Entry::Place::settled &&
                         next.reads != codecs::Reads::nothing;
    if (!is_read) continue;
    const bool fits = has_room || then->device == nullptr;
    if (decodes && fits && then->encoded_bytes != 0 && !then->ahead) {
      decodes = jobs.size() < most_ahead &&
                (ahead_bytes_ == 0 || ahead_bytes_ + then->raw_bytes <= window_limit());
      if (decodes) {
        then->ahead = true;
        ahead_bytes_ += then->raw_bytes;
        ++then->holders;
        jobs.push_back({then, SideThread::Job::Kind::decode, next.reads, 0});
        continue;
      }
    }
    const std::size_t away = then->offloaded_bytes();
    if (fetches_more && away != 0 && !then->device->fetched && !then->ahead) {
      fetches_more = fetched_bytes_ == 0 || fetched_bytes_ + away <= most_fetched;
      if (!fetches_more) continue;
      make_room_for_one(fetches);
      then->device->fetched = true;
      fetched_bytes_ += away;
      ++then->holders;
      fetches.push_back(then);
    }
  }
}

void Stash::decode_ahead(Entry& entry, codecs::Reads reads) {
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    bool wanted = false;
    {
      const std::lock_guard stash_lock(mutex_);
      // In another order than the last step's, what was foreseen may be nobody's.
      for (const Use* use = entry.first_use; use != nullptr && entry.ahead; use = use->next) {
        wanted = wanted || use->reads == reads;
      }
    }
    if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
    auto& alive = entry.decoded->alive[static_cast<std::size_t>(reads)];
    // A watched entry is decoded where it is measured.
    if (wanted && entry.sample == nullptr && alive.expired()) {
      if (entry.device != nullptr && needs_fetch(entry, reads)) statistics_.fetched(/*ahead=*/true);
      entry.decoded->ahead =
          entry.device == nullptr
              ? decode(entry, reads, codecs::serial_for)
              : decode_on_device(entry, reads, side_stream(entry.device->saved_on.device()));
      alive = weak(entry.decoded->ahead);
    }
  }
  drop_holder(entry, nullptr);
}

void Stash::work_aside(void* self, const SideThread::Job& job) noexcept {
  auto& stash = *static_cast<Stash*>(self);
  if (job.kind == SideThread::Job::Kind::settle) {
    stash.settle(*job.entry, codecs::serial_for);
    return;
  }
  try {
    stash.decode_ahead(*job.entry, job.reads);
  } catch (const std::exception&) {
    // No memory: backward will decode it, or say so.
    if (job.entry->device != nullptr) stash.stop_reading_ahead();
    stash.drop_holder(*job.entry, nullptr);
  }
}

void Stash::settle_orphans() noexcept {
  if_memory_allows([&] {
    for (const SideThread::Job& job : side_.take_orphans()) work_aside(this, job);
  });
}

void Stash::stop_side_thread() noexcept {
  side_.stop();
  settle_orphans();
}

}  // namespace cinch::hooks
