// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/adapting/dry_run.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/side_work.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/intake.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// Carries out the plans of entries that left the window: each is encoded, dropped or derived, or
/// kept where that fails. Thread-safe; no lock is held, unless a comment says otherwise.
class Settler {
 public:
  using Entries = Intake::Entries;

  /// @param dry_run Null in ordinary runs
  Settler(EntryLists& lists, const PolicyInForce& policy, Statistics& statistics, DryRun* dry_run,
          EntryKeeper& keeper, Derivation& derivation, GuardLooks& looks, const Holdings& holdings,
          Intake& intake, SideWork& side)
      : lists_(lists),
        policy_(policy),
        statistics_(statistics),
        dry_run_(dry_run),
        keeper_(keeper),
        derivation_(derivation),
        looks_(looks),
        holdings_(holdings),
        intake_(intake),
        side_(side) {}
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;

  /// Settles what Intake::collect found, here or on the side thread.
  void settle_all(const Entries& ready) noexcept;

  /// See EntryKeeper.
  void settle(Entry& entry, codecs::ParallelFor parallel_for, EntryKeeper::When when) noexcept;
  void free_later(c10::Storage storage) noexcept;

  /// Takes the storages of free_later(), for the caller to free. @pre the stash's lock is held
  std::vector<c10::Storage> take_freed() noexcept { return std::exchange(freed_later_, {}); }

  /// Memory has run out: settles waiting entries until about `bytes` are free.
  /// @return the bytes freed
  std::size_t encode_early(int device, std::size_t bytes);

 private:
  std::string_view carry_out(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);
  void finish(Entry& entry, bool wanted);

  EntryLists& lists_;
  const PolicyInForce& policy_;
  Statistics& statistics_;
  DryRun* const dry_run_;
  EntryKeeper& keeper_;
  Derivation& derivation_;
  GuardLooks& looks_;
  const Holdings& holdings_;
  Intake& intake_;
  SideWork& side_;
  std::vector<c10::Storage> freed_later_;  // under the stash's lock
};

}  // namespace cinch::hooks
