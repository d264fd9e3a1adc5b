// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/lists/entry_queue.h"

namespace cinch::hooks {

/// Queues of entries on devices, by what may happen to them next. Under the stash's lock.
struct DeviceQueues {
  // Entries whose encoded size is not known beforehand.
  EntryQueue put_off;  ///< settling; waits for room in flight; no thread holds it
  EntryQueue unsized;  ///< encoded; the host does not know the size yet
  // Settled entries.
  EntryQueue leaving;  ///< to be moved to the host: the policy's choice
  EntryQueue movable;  ///< moved to the host if the device runs out of memory
  EntryQueue staying;  ///< never moved
  EntryQueue sampled;  ///< watched by the guard; stays until the guard is done

  /// Queues an entry that was settled, or whose size became known.
  /// @param least_moved Entries held in fewer bytes stay on their device
  void add(Entry& entry, std::uint64_t least_moved) {
    using enum policy::Decision::Offload;
    if (entry.device->outcome != nullptr) return unsized.push_back(entry);
    if (entry.sample != nullptr) return sampled.push_back(entry);
    const std::size_t bytes = entry.stored_bytes();
    // Of a derived entry there is little to move, and nothing to encode anew.
    if (bytes == 0 || entry.state == Entry::State::derived) return;
    const bool stays = entry.plan().offload == never || bytes < least_moved;
    EntryQueue& moves = entry.plan().offload == always ? leaving : movable;
    (stays ? staying : moves).push_back(entry);
  }
};

}  // namespace cinch::hooks
