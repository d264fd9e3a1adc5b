// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <c10/core/Storage.h>

#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/adapting/adaptation.h"
#include "hooks/torch/stash/adapting/guard.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// Carries out the guard's looks at entries: keeps exact values beside the encoding, counts the
/// errors, and has an entry's class held more precisely where they are too large. Thread-safe.
class GuardLooks {
 public:
  GuardLooks(const policy::GuardSettings& settings, EntryLists& lists, const Adaptation& adaptation,
             BufferPool& buffers);
  GuardLooks(const GuardLooks&) = delete;
  GuardLooks& operator=(const GuardLooks&) = delete;

  Guard& guard() noexcept { return guard_; }
  const Guard& guard() const noexcept { return guard_; }

  /// The entry leaves the window: decides whether it is watched. Backward's nodes are told apart
  /// from then on, so that nothing depends on when a side thread encodes the entry.
  /// @pre the stash's lock is held
  void begin(Entry& entry);

  /// From now on, whether exact values of all entries that are approximated are kept until backward
  /// (Entry::compared). Their errors are not measured.
  void keep_all(bool on) noexcept { keeps_all_.store(on, std::memory_order_relaxed); }

  /// @pre the stash's lock is held
  void stop_watching(Entry& entry) noexcept;

  /// Takes the exact values of an entry that is watched, tried or compared, or copies a part of
  /// them; else leaves them to the caller.
  /// @pre entry.mutex() is held
  void keep_sample(Entry& entry, c10::Storage& exact) noexcept;

  /// Stops watching the entry. @return the exact values, to be freed without locks
  /// @pre entry.mutex() and the stash's lock are held
  std::unique_ptr<GuardSample> take_sample(Entry& entry);

  /// Whether to measure the error of the entry's decoded values: true once per sample.
  /// @pre entry.mutex() is held
  static bool wants_error(Entry& entry) noexcept;

  /// The error of the entry's decoded values was measured. @pre entry.mutex() is held
  void values_measured(Entry& entry, const ValueError& error);

  /// The relative error of a node's gradients, computed from the decoded values, was measured.
  void gradient_measured(Entry& entry, double error) noexcept;

 private:
  Guard::Kept kept(const Entry& entry) const;
  void sample_part(Entry& entry, const c10::Storage& exact);
  void be_careful(Entry& entry, const char* what, double error, double limit, bool broken) noexcept;
  void note_caution(const Entry& entry, const char* what, double error, double limit,
                    bool broken) noexcept;

  EntryLists& lists_;
  const Adaptation& adaptation_;
  BufferPool& buffers_;
  Guard guard_;
  std::atomic<bool> keeps_all_{false};
};

}  // namespace cinch::hooks
