// SPDX-License-Identifier: Apache-2.0
// What the stash moves from CUDA devices to the host's memory, and how it makes room for others.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/offload.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/listeners.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

std::size_t Stash::make_room(int device, std::size_t bytes) {
  if (AtWork::here()) return 0;
  // To wait for sizes and what was read ahead cost time only, the guard's samples a look: no rescue
  // that is counted.
  std::size_t given_up = device == host ? 0 : await_outcomes(device, bytes);
  if (device != host && given_up < bytes) given_up += give_up_read_ahead(device, bytes - given_up);
  if (device != host && given_up < bytes) given_up += give_up_samples(device, bytes - given_up);
  if (given_up >= bytes || !settings().rescue.enabled) return given_up;
  Statistics::Rescue by;
  const auto missing = [&] { return bytes - std::min(bytes, given_up + by.all()); };
  by.encoded = encode_early(device, missing());
  if (device != host && missing() != 0) by.harder = encode_harder(device, missing());
  if (device != host && missing() != 0) by.moved = move_out(device, missing());
  if (by.all() != 0) note_rescue(device, by);
  if (by.all() != 0 || given_up != 0 || device == host) return given_up + by.all();
  // Nothing is left that what was put aside could help to encode.
  return reserve_.release(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
}

void Stash::note_rescue(int device, const Statistics::Rescue& by) {
  statistics_.rescued(by);
  const auto as_printed = [](std::uint64_t bytes) { return static_cast<std::size_t>(bytes); };
  tell(telemetry::EventKind::rescue,
       "memory had run out: %zu bytes freed, %zu of them by compressing harder, %zu by "
       "moving to the host",
       as_printed(by.all()), as_printed(by.harder), as_printed(by.moved));
  std::string detail = std::to_string(by.encoded) + " bytes freed by compressing earlier";
  if (by.harder != 0) detail += ", " + std::to_string(by.harder) + " by compressing harder";
  if (by.moved != 0) detail += ", " + std::to_string(by.moved) + " by moving to the host";
  const std::lock_guard lock(mutex_);
  timeline_.decided("rescue", device == host ? "host" : "device " + std::to_string(device),
                    std::move(detail));
}

void Stash::note_given(int device, std::size_t bytes) {
  statistics_.given(bytes);
  tell(telemetry::EventKind::rescue, "memory had run out: other processes gave back %zu bytes",
       bytes);
  if (AtWork::here()) return;  // this thread may hold the lock
  const std::lock_guard lock(mutex_);
  timeline_.decided("rescue", "device " + std::to_string(device),
                    std::to_string(bytes) + " bytes given back by other processes");
}

// pre: mutex_ is held and the entry has just been settled, or its size become known
void Stash::enqueue_for_host(Entry& entry) {
  using enum policy::Decision::Offload;
  if (entry.device == nullptr) return;
  if (entry.device->outcome != nullptr) return unsized_.push_back(entry);
  if (entry.sample != nullptr) return sampled_.push_back(entry);
  const std::size_t bytes = entry.stored_bytes();
  if (bytes == 0) return;
  const bool stays = entry.plan().offload == never || bytes < settings().offload.min_bytes;
  EntryQueue& moves = entry.plan().offload == always ? leaving_ : movable_;
  (stays ? staying_ : moves).push_back(entry);
}

// What shall leave the devices does, but for the youngest, which backward reads first.
void Stash::move_surplus() {
  for (;;) {
    Entry* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (leaving_.bytes() <= window_limit()) return;
      oldest = leaving_.oldest(-1);
      leaving_.remove(*oldest);
      ++oldest->holders;
    }
    if (!move_to_host(*oldest)) return;
  }
}

// Moves entries of a device, the oldest first, until so many bytes are free.
std::size_t Stash::move_out(int device, std::size_t bytes) {
  std::size_t moved = 0;
  while (moved < bytes) {
    Entry* oldest = nullptr;
    std::size_t freed = 0;
    {
      const std::lock_guard lock(mutex_);
      oldest = leaving_.oldest(device);
      if (oldest == nullptr) oldest = movable_.oldest(device);
      if (oldest == nullptr) break;
      freed = oldest->stored_bytes();
      oldest->device->queue->remove(*oldest);
      ++oldest->holders;
    }
    std::size_t left = 0;
    if (!move_to_host(*oldest, &left)) break;
    moved += freed - left;
  }
  return moved;
}

// Gives up copies of a device that were made ahead of backward, those that it reads last first, and
// makes no more of them in this growth and fewer of what is on the host in the next ones.
std::size_t Stash::give_up_read_ahead(int device, std::size_t bytes) {
  std::size_t freed = 0;
  Entries copies;
  {
    const std::lock_guard lock(mutex_);
    copies = read_ahead_.take_all(device);
  }
  for (Entry* entry : copies) {
    if (freed < bytes) freed += give_up_read_ahead(*entry);
    drop_holder(*entry, nullptr);
  }
  return freed;
}

// The entry is read as if nothing had been read ahead of it. @return bytes freed
std::size_t Stash::give_up_read_ahead(Entry& entry) {
  c10::Storage storage;  // freed after the locks, as is what follows
  c10::DataPtr fetched;
  std::size_t freed = 0;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    {
      const std::lock_guard stash_lock(mutex_);
      read_ahead_.forget(entry);
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

// Gives up one hold on `entry`, which was taken out of its queue. One that backward is reading
// stays where it is, which counts as done; `left` says how much of it that was.
// @return false when the host has no room for it, after a line that says so once
bool Stash::move_to_host(Entry& entry, std::size_t* left) {
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  bool room = true;
  bool moved = false;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    bool wanted = false;
    {
      const std::lock_guard stash_lock(mutex_);
      wanted = entry.first_use != nullptr;
    }
    const bool kept = entry.state == Entry::State::kept;
    wanted = wanted && !entry.captured && (entry.state == Entry::State::encoded || kept) &&
             (!kept || entry.is_solely_ours());
    if (wanted) {
      try {
        moved = room = hooks::move_to_host(entry, pinned_);
      } catch (const std::exception&) {
        room = false;
      }
    }
    if (moved && kept) freed = std::move(entry.raw);
    const std::size_t bytes = kept ? entry.raw_bytes : entry.encoded_bytes;
    const std::lock_guard stash_lock(mutex_);
    if (moved) {
      held_.offload(entry, bytes);
      entry.device->offloaded_bytes = bytes;
      offloads_ = true;
      statistics_.offloaded(bytes);
      note_change();
    } else if (left != nullptr) {
      *left = bytes;
    }
  }
  drop_holder(entry, nullptr);
  if (freed) free_later(std::move(freed));
  if (!room && !said_no_room_.exchange(true, std::memory_order_relaxed)) {
    const PinnedPool::Figures pinned = pinned_.figures();
    std::fprintf(stderr,
                 "cinch: offload: the host has no more page-locked memory for it (%.1f of %.1f MiB "
                 "are taken): what finds no room stays on the device\n",
                 static_cast<double>(pinned.reserved) / (1 << 20),
                 static_cast<double>(pinned.most) / (1 << 20));
  }
  return room;
}

// Has copied back ahead what backward is about to read; gives up one hold on `entry`.
void Stash::fetch_ahead(Entry& entry) noexcept {
  bool fits = true;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    try {
      bool wanted = false;
      {
        const std::lock_guard stash_lock(mutex_);
        wanted = entry.first_use != nullptr && entry.device->fetched;
      }
      if (!wanted) {
      } else if (entry.state == Entry::State::encoded) {
        if (needs_fetch(entry, codecs::Reads::values)) {
          fetch_encoded(entry);
          statistics_.fetched(/*ahead=*/true);
        }
      } else {
        if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
        auto& alive = entry.decoded->alive[static_cast<std::size_t>(codecs::Reads::values)];
        if (alive.expired()) {
          entry.decoded->ahead = fetch_raw(entry);
          alive = weak(entry.decoded->ahead);
          statistics_.fetched(/*ahead=*/true);
        }
      }
    } catch (const std::exception&) {
      fits = false;  // backward will fetch it, or say that there is no memory
    }
  }
  if (!fits) stop_reading_ahead();
  drop_holder(entry, nullptr);
}

}  // namespace cinch::hooks
