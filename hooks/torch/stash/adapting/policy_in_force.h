// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooks/torch/stash/adapting/adaptation.h"
#include "hooks/torch/stash/adapting/guard.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/lists/entry_lists.h"
#include "hooks/torch/stash/planning/planner.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// The policy that entries are planned by, and at most one requested change of it. The change is
/// made when no entry is held, so that no entry refers to the old policy's plans and layers.
/// @pre the stash's lock is held, unless a comment says otherwise
class PolicyInForce {
 public:
  /// @param is_dry_run Whether nothing may be encoded, not even in a rescue
  PolicyInForce(policy::Settings settings, bool is_dry_run, EntryLists& lists,
                Statistics& statistics, Adaptation& adaptation, Guard& guard);

  /// Needs no lock. The reference stays valid.
  const policy::Settings& settings() const noexcept {
    return policy_.load(std::memory_order_acquire)->settings();
  }

  /// While paused, the stash takes no new tensors. Entries stay held. Needs no lock.
  void pause(bool paused) noexcept { paused_.store(paused, std::memory_order_relaxed); }
  bool is_paused() const noexcept { return paused_.load(std::memory_order_relaxed); }

  Planner& planner() noexcept { return *planner_; }

  /// Most raw bytes that the window may hold.
  std::size_t window_limit() const;

  /// Most bytes of a device that may wait for its work, the host running ahead: `in_flight_bytes`,
  /// but no more than a sixteenth of the most raw bytes so far, or little is saved at a small
  /// program's peak. Needs no lock.
  std::uint64_t in_flight_limit() const;

  /// Puts `settings` in force when no entry is held: now, or at the begin of the first growth that
  /// finds none. A step begins then, and peaks start anew; the stream stays as it is. `done` is
  /// called once, at that time, under the lock, with a message for the user. This call replaces a
  /// change that still waits, whose `done` is never called. Takes the lock.
  void change(policy::Settings settings, void (*done)(const std::string& words));

  /// Makes a requested change if no entry is held.
  void take_up_change();

  /// Drops a requested change: in a forked child, since it was asked of the parent.
  void forget_change() noexcept { change_.reset(); }

 private:
  struct Change {
    policy::Settings settings;
    void (*done)(const std::string& words);
  };

  const policy::Policy* keep(policy::Settings settings);
  std::vector<std::string> begin();

  EntryLists& lists_;
  Statistics& statistics_;
  Adaptation& adaptation_;
  Guard& guard_;
  const bool is_dry_run_;
  // All policies that were ever in force: other threads may still read one.
  std::vector<std::unique_ptr<const policy::Policy>> policies_;
  std::atomic<const policy::Policy*> policy_;  // the last one
  std::atomic<bool> paused_{false};
  std::optional<Planner> planner_;
  std::optional<Change> change_;
};

}  // namespace cinch::hooks
