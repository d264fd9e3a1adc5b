// SPDX-License-Identifier: Apache-2.0
// The stash and its side thread: what is decoded ahead of backward, and what that thread left.
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

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
  read_ahead_.stop();
}

// Has decoded and fetched ahead what backward read next the last time.
void Stash::foresee(Entry& entry, const Use& use) noexcept {
  ReadAhead::Choice choice;
  if_memory_allows([&] {
    const std::lock_guard lock(mutex_);
    read_ahead_.read(entry, use, window_limit(), aside_, held_.offloaded() != 0, choice);
  });
  for (const auto& job : choice.decodes) {
    constexpr auto never_wait = std::numeric_limits<std::size_t>::max();
    if (job.entry->device != nullptr) {
      work_aside(this, job);  // which only enqueues it
      continue;
    }
    bool taken = false;
    if_memory_allows([&] { taken = side_.submit(job, never_wait); });
    if (!taken) drop_holder(*job.entry, nullptr);
  }
  for (Entry* next : choice.fetches) fetch_ahead(*next);
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
    // A watched entry is decoded where it is measured, a derived one where its sources are read.
    const bool computes = entry.state == Entry::State::derived && reads == codecs::Reads::values;
    if (wanted && !computes && entry.sample == nullptr && alive.expired()) {
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
