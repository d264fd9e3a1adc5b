// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hooks/torch/stash/entry_queue.h"
#include "hooks/torch/stash/plan.h"

namespace cinch::hooks {

/// Entries of devices by what may become of them. All is under the stash's lock.
struct DeviceQueues {
  // Of sizes that only the data decide.
  EntryQueue put_off;  ///< until there is room to wait for more of them: settling, held by nobody
  EntryQueue unsized;  ///< encoded
  // Settled ones.
  EntryQueue leaving;  ///< for the host: the policy's choice
  EntryQueue movable;  ///< there when a device is out of memory
  EntryQueue staying;  ///< never moved
  EntryQueue sampled;  ///< the guard's, which stay until it is done with them

  /// `entry` has been settled, or its size become known.
  /// @param least_moved What is held in fewer bytes stays on its device
  void add(Entry& entry, std::uint64_t least_moved) {
    using enum policy::Decision::Offload;
    if (entry.device->outcome != nullptr) return unsized.push_back(entry);
    if (entry.sample != nullptr) return sampled.push_back(entry);
    const std::size_t bytes = entry.stored_bytes();
    if (bytes == 0) return;
    const bool stays = entry.plan().offload == never || bytes < least_moved;
    EntryQueue& moves = entry.plan().offload == always ? leaving : movable;
    (stays ? staying : moves).push_back(entry);
  }
};

}  // namespace cinch::hooks
