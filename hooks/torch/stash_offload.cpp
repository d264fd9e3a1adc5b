// SPDX-License-Identifier: Apache-2.0
// What the stash moves from CUDA devices to the host's memory, and how it makes room for others.
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/device/offload.h"
#include "hooks/torch/entry_work.h"
#include "hooks/torch/fork.h"
#include "hooks/torch/stash.h"

namespace cinch::hooks {

std::size_t Stash::make_room(int device, std::size_t bytes) {
  if (AtWork::here()) return 0;
  const std::size_t encoded = encode_early(device, bytes);
  const std::size_t moved =
      device == host || encoded >= bytes ? 0 : move_out(device, bytes - encoded);
  if (encoded + moved != 0) statistics_.rescued(encoded, moved);
  return encoded + moved;
}

// pre: mutex_ is held and the entry has just been settled
void Stash::enqueue_for_host(Entry& entry) {
  using enum policy::Decision::Offload;
  if (entry.device == nullptr || entry.plan().offload == never) return;
  const std::size_t bytes = entry.stored_bytes();
  if (bytes == 0 || bytes < settings().offload.min_bytes) return;
  (entry.plan().offload == always ? leaving_ : movable_).push_back(entry);
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
      oldest->queue->remove(*oldest);
      ++oldest->holders;
    }
    std::size_t left = 0;
    if (!move_to_host(*oldest, &left)) break;
    moved += freed - left;
  }
  return moved;
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
    wanted = wanted && (entry.state == Entry::State::encoded || kept) &&
             (!kept || entry.raw.use_count() == 1);
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
      settled_stored_ -= bytes;
      settled_on_device_[entry.device->index()] -= bytes;
      entry.offloaded_bytes = bytes;
      offloaded_bytes_ += bytes;
      offloads_ = true;
      statistics_.offloaded(bytes);
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
        wanted = entry.first_use != nullptr && entry.fetched;
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
  if (!fits) {
    const std::lock_guard lock(mutex_);
    no_room_ahead_ = growth_;
  }
  drop_holder(entry, nullptr);
}

}  // namespace cinch::hooks
