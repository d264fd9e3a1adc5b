// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooks/torch/stash/adaptation.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/guard.h"
#include "hooks/torch/stash/plan.h"
#include "hooks/torch/stash/statistics.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// The policy that entries are planned by, and the one that takes its place as soon as nothing is
/// held: no entry then knows of the old one's plans and layers. The stash's lock is held but where
/// nothing of the kind is said.
class PolicyInForce {
 public:
  /// @param is_dry_run Nothing is encoded, not in a rescue either
  PolicyInForce(policy::Settings settings, bool is_dry_run, EntryLists& lists,
                Statistics& statistics, Adaptation& adaptation, Guard& guard);

  /// Needs no lock. What was returned stays valid.
  const policy::Settings& settings() const noexcept {
    return policy_.load(std::memory_order_acquire)->settings();
  }

  Planner& planner() noexcept { return *planner_; }

  /// What may wait raw.
  std::size_t window_limit() const;

  /// Asks for another policy; see Stash::change_policy. Takes the lock.
  void change(policy::Settings settings, void (*done)(const std::string& words));

  /// A change that was asked for is made if nothing is held.
  void take_up_change();

  /// It was asked of a process that this one was forked from.
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
  // All that were in force, since other threads may still read one.
  std::vector<std::unique_ptr<const policy::Policy>> policies_;
  std::atomic<const policy::Policy*> policy_;  // the last one
  std::optional<Planner> planner_;
  std::optional<Change> change_;
};

}  // namespace cinch::hooks
