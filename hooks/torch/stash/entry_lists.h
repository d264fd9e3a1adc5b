// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <c10/core/Storage.h>

#include "agent/telemetry/report.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/held_bytes.h"
#include "hooks/torch/stash/planned_bytes.h"
#include "hooks/torch/stash/timeline.h"
#include "hooks/torch/stash/waiting_entries.h"

namespace cinch::hooks {

/// The entries that the stash holds, by how far they are on their way, what they take, and the lock
/// of all that: the stash's lock, which is taken after an entry's own.
///
/// An entry goes through the lists in one direction (Entry::Place). `owned`: the program owns the
/// storage too. `window`: it is solely the stash's and planned, and stays raw while the window has
/// room, so that what backward reads first was never encoded. `settling`: it left the window and is
/// encoded. Which entries leave the window depends on what was saved, never on how fast anything is
/// encoded.
struct EntryLists {
  /// What was held when that was most (docs/design.md, "Raw and stored bytes").
  struct Peak {
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t held_elsewhere_bytes = 0;
    std::uint64_t offloaded_bytes = 0;  ///< besides, in the host's memory instead of a device's
  };

  EntryLists();
  EntryLists(const EntryLists&) = delete;
  EntryLists& operator=(const EntryLists&) = delete;

  mutable std::mutex mutex;
  /// Whether the program saves; else backward reads. Changes without the lock, too.
  std::atomic<bool> growing{false};

  // All that follows is under the lock.
  HeldBytes held;
  PlannedBytes planned;
  WaitingEntries waiting{held};
  Timeline timeline;
  std::size_t alive = 0;  ///< entries
  std::uint32_t next_id = 0;
  Peak peak;
  Peak at_boundary;  ///< when the growth last ended; without what the program owns too

  /// To be called after changes. @pre mutex is held
  void note_change() noexcept { timeline.note(held.raw(), held.stored(), held.owned); }

  /// A settled entry takes less than `before`. @return by how much @pre mutex is held
  std::size_t note_less_held(const Entry& entry, std::size_t before);

  // What follows takes the lock.

  /// Whether `storage` is an entry's that waits raw: saving it adds a use.
  bool is_waiting(const c10::Storage& storage) const;
  /// Whether anybody reads the entry still.
  bool has_uses(const Entry& entry) const;
  Peak peak_so_far() const;
  /// Bytes held now, raw and encoded, moved to the host or not.
  std::uint64_t bytes() const;
  /// Of these, the settled ones on a CUDA device, and the most that these were.
  std::uint64_t settled_bytes(int device) const;
  std::uint64_t most_settled_bytes(int device) const;
  /// Fills what `report` says of times.
  void fill_timeline(telemetry::Report& report) const;
};

}  // namespace cinch::hooks
