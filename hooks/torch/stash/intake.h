// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/adapting/adaptation.h"
#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/read_ahead.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/lists/entry_lists.h"
#include "hooks/torch/stash/planning/magnified.h"

namespace cinch::hooks {

/// Entries from their save to settling: finds those that only the stash owns, plans them, and
/// decides which leave the window. The stash's lock is held.
class Intake {
 public:
  using Entries = std::vector<Entry*>;

  /// @param is_dry_run Whether entries skip the window
  Intake(bool is_dry_run, EntryLists& lists, PolicyInForce& policy, Adaptation& adaptation,
         Magnified& magnified, Derivation& derivation, GuardLooks& looks, ReadAhead& read_ahead,
         const Holdings& holdings)
      : is_dry_run_(is_dry_run),
        lists_(lists),
        policy_(policy),
        adaptation_(adaptation),
        magnified_(magnified),
        derivation_(derivation),
        looks_(looks),
        read_ahead_(read_ahead),
        holdings_(holdings) {}
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  /// A growth begins: the places of entries are counted from 0 again.
  void begin_growth() noexcept { ++growth_; }

  /// The entry of `tensor`'s storage. A storage that the program has resized or given other memory
  /// since its save gets a second entry. Both entries then own it, so neither is encoded.
  /// @throws std::exception when there is no memory; nothing has then changed
  Entry& find_or_add(const at::Tensor& tensor);

  /// Plans entries whose storage nobody else owns any more, or that are to be taken from the
  /// program (Derivation::takes_from_program). Those to encode enter the window; the oldest leave
  /// it while it is over its limit.
  /// @param at_most How many owned entries to look at @param but An entry to leave alone, or null
  /// @param ready Receives the entries to settle, each held once for that
  void collect(std::size_t at_most, const Entry* but, Entries& ready);

  /// Plans all entries that are to be taken from the program, but for `but`; as collect() does.
  void take_from_program(const Entry* but, Entries& ready);

  /// Memory has run out: `bytes` of a device's entries (Holding::host: of the host's) leave the
  /// window, the oldest first.
  void clear_window(int device, std::size_t bytes, Entries& ready);

  /// Removes an entry from the window.
  void forget_in_window(Entry& entry);

 private:
  template <typename F>
  void plan_owned(std::size_t at_most, const Entry* but, Entries& ready, const F& may_leave);
  bool plan(Entry& entry, Entries& ready) noexcept;
  void leave_window(Entry& entry, Entries& ready);
  void start_settling(Entry& entry, Entries& ready);

  const bool is_dry_run_;
  EntryLists& lists_;
  PolicyInForce& policy_;
  Adaptation& adaptation_;
  Magnified& magnified_;
  Derivation& derivation_;
  GuardLooks& looks_;
  ReadAhead& read_ahead_;
  const Holdings& holdings_;
  std::uint64_t growth_ = 0;  // how often the stash began to grow
};

}  // namespace cinch::hooks
