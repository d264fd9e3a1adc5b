// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/offloader.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/on_device/offload.h"

namespace cinch::hooks {

Offloader::Offloader(const DeviceParts& parts)
    : stash_(parts),
      pinned_(pinned_host(), parts.policy.settings().offload.host_bytes, processes_here()) {
  register_fork_lock(pinned_.mutex());
}

void Offloader::move_surplus() {
  while (!stash_.queues.leaving.is_empty()) {
    Entry* oldest = nullptr;
    {
      const std::lock_guard lock(stash_.lists.mutex);
      if (stash_.queues.leaving.bytes() <= stash_.policy.window_limit()) return;
      oldest = stash_.queues.leaving.oldest(-1);
      stash_.queues.leaving.remove(*oldest);
      ++oldest->holders;
    }
    if (!move_to_host(*oldest)) return;
  }
}

std::size_t Offloader::move_out(int device, std::size_t bytes) {
  std::size_t moved = 0;
  while (moved < bytes) {
    Entry* oldest = nullptr;
    std::size_t freed = 0;
    {
      const std::lock_guard lock(stash_.lists.mutex);
      oldest = stash_.queues.leaving.oldest(device);
      if (oldest == nullptr) oldest = stash_.queues.movable.oldest(device);
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

// Moves an entry that was taken out of its queue, and gives up one hold on it. An entry that
// backward is reading stays on the device, which counts as done; `left` gets its bytes.
// @return false when the host has no room for it; a line on stderr says so once
bool Offloader::move_to_host(Entry& entry, std::size_t* left) {
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  bool room = true;
  bool moved = false;
  {
    const EntryWork work(entry);
    const bool kept = entry.state == Entry::State::kept;
    const bool wanted = stash_.lists.has_uses(entry) && !entry.captured &&
                        (entry.state == Entry::State::encoded || kept) &&
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
    const std::lock_guard stash_lock(stash_.lists.mutex);
    if (moved) {
      stash_.lists.held.offload(entry, bytes);
      entry.device->offloaded_bytes = bytes;
      stash_.read_ahead.note_offload();
      stash_.statistics.offloaded(bytes);
      stash_.lists.note_change();
    } else if (left != nullptr) {
      *left = bytes;
    }
  }
  stash_.keeper.drop_holder(entry);
  if (freed) stash_.keeper.free_later(std::move(freed));
  if (!room) say_no_room();
  return room;
}

void Offloader::say_no_room() noexcept {
  if (said_no_room_.exchange(true, std::memory_order_relaxed)) return;
  const PinnedPool::Figures pinned = pinned_.figures();
  std::fprintf(stderr,
               "cinch: offload: the host has no more page-locked memory for it (%.1f of %.1f MiB "
               "are taken): what finds no room stays on the device\n",
               static_cast<double>(pinned.reserved) / (1 << 20),
               static_cast<double>(pinned.most) / (1 << 20));
}

void Offloader::fetch_ahead(Entry& entry) noexcept {
  bool fits = true;
  {
    const EntryWork work(entry);
    try {
      fetch(entry);
    } catch (const std::exception&) {
      fits = false;  // backward will fetch it, or say that there is no memory
    }
  }
  if (!fits) {
    const std::lock_guard lock(stash_.lists.mutex);
    stash_.read_ahead.stop(entry);
  }
  stash_.keeper.drop_holder(entry);
}

// Fetches the entry if it is still wanted. pre: entry.mutex() is held
void Offloader::fetch(Entry& entry) {
  {
    const std::lock_guard lock(stash_.lists.mutex);
    if (entry.first_use == nullptr || !entry.device->fetched) return;
  }
  if (entry.state == Entry::State::encoded) {
    if (!needs_fetch(entry, codecs::Reads::values)) return;
    fetch_encoded(entry);
  } else {
    if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
    auto& alive = entry.decoded->alive[static_cast<std::size_t>(codecs::Reads::values)];
    if (!alive.expired()) return;
    entry.decoded->ahead = fetch_raw(entry);
    alive = weak(entry.decoded->ahead);
  }
  stash_.statistics.fetched(/*ahead=*/true);
}

}  // namespace cinch::hooks
