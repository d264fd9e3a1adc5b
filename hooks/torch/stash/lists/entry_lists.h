// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <c10/core/Storage.h>

#include "agent/telemetry/report.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/lists/held_bytes.h"
#include "hooks/torch/stash/lists/planned_bytes.h"
#include "hooks/torch/stash/lists/shared_entries.h"
#include "hooks/torch/stash/lists/timeline.h"
#include "hooks/torch/stash/lists/waiting_entries.h"

namespace cinch::hooks {

/// The entries of the stash by Entry::Place, their bytes, and the mutex that guards both: the
/// stash's lock, which is taken after an entry's own.
///
/// An entry passes through the places in order. `owned`: the program owns the storage too.
/// `window`: only the stash owns it; the entry is planned, and stays raw while the window has room.
/// So what backward reads first was never encoded. `settling`: it left the window and is about to
/// be encoded. Which entries leave the window depends on what was saved, never on the speed of
/// encoding.
struct EntryLists {
  /// The bytes held at the moment of most raw bytes (docs/design.md, "Raw and stored bytes").
  struct Peak {
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t held_elsewhere_bytes = 0;
    std::uint64_t offloaded_bytes = 0;  ///< moved from devices to the host; not in stored_bytes
  };

  EntryLists();
  EntryLists(const EntryLists&) = delete;
  EntryLists& operator=(const EntryLists&) = delete;

  mutable std::mutex mutex;
  /// True from a save to the next read or release. Also changes without the lock.
  std::atomic<bool> growing{false};

  // The members below are under the lock.
  HeldBytes held;
  PlannedBytes planned;  ///< of entries that are read; see remove_use()
  WaitingEntries waiting{held};
  SharedEntries shared;
  Timeline timeline;
  std::size_t alive = 0;  ///< entries
  std::uint32_t next_id = 0;
  Peak peak;         ///< set by set_peak
  Peak at_boundary;  ///< when the last growth ended; without `owned` entries

  /// Call after every change. @pre mutex is held
  void note_change() noexcept { timeline.note(held.raw(), held.stored(), held.owned); }

  /// @pre mutex is held
  void set_peak(const Peak& to) noexcept {
    peak = to;
    raw_bytes_at_peak_.store(to.raw_bytes, std::memory_order_relaxed);
  }
  /// peak.raw_bytes. Needs no lock.
  std::uint64_t raw_bytes_at_peak() const noexcept {
    return raw_bytes_at_peak_.load(std::memory_order_relaxed);
  }

  /// Adds a use to an entry. @pre mutex is held
  void add_use(Entry& entry, Use& use) noexcept;
  /// Removes a use of an entry. An entry counts in `planned` while a node reads it, or the recipe
  /// of an entry that counts. So the side thread, which may hold what nobody reads any more, and
  /// what that is derived from, changes nothing that a policy sees. @pre mutex is held
  void remove_use(Entry& entry, Use& use) noexcept;

  /// Adds a planned entry to `planned`, unless it is there. @pre mutex is held
  void add_planned(Entry& entry) noexcept;
  /// Removes an entry from `planned`, if it is there. @pre mutex is held
  void remove_planned(Entry& entry) noexcept;

  /// A settled entry shrank from `before` bytes. @return by how much @pre mutex is held
  std::size_t note_less_held(const Entry& entry, std::size_t before);

  // The functions below take the lock.

  /// Whether `storage` belongs to an `owned` entry: saving it again adds a use.
  bool is_waiting(const c10::Storage& storage) const;
  /// Whether anybody may still read the entry.
  bool has_uses(const Entry& entry) const;
  Peak peak_so_far() const;
  /// Bytes held now, raw, encoded and offloaded.
  std::uint64_t bytes() const;
  /// Bytes of settled entries on a CUDA device: now, and at most so far.
  std::uint64_t settled_bytes(int device) const;
  std::uint64_t most_settled_bytes(int device) const;
  /// Fills the fields of Timeline::fill.
  void fill_timeline(telemetry::Report& report) const;

 private:
  void note_read(Entry& entry) noexcept;
  void note_unread(Entry& entry) noexcept;

  std::atomic<std::uint64_t> raw_bytes_at_peak_{0};
};

}  // namespace cinch::hooks
