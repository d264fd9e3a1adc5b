// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/adaptation.h"
#include "hooks/torch/stash/derivation.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/guard_looks.h"
#include "hooks/torch/stash/holdings.h"
#include "hooks/torch/stash/policy_in_force.h"
#include "hooks/torch/stash/read_ahead.h"

namespace cinch::hooks {

/// From saving to settling: which entries are solely the stash's, what is planned for them, and
/// which of them leave the window. The stash's lock is held.
class Intake {
 public:
  using Entries = std::vector<Entry*>;

  /// @param is_dry_run Nothing waits in the window
  Intake(bool is_dry_run, EntryLists& lists, PolicyInForce& policy, Adaptation& adaptation,
         Derivation& derivation, GuardLooks& looks, ReadAhead& read_ahead, const Holdings& holdings)
      : is_dry_run_(is_dry_run),
        lists_(lists),
        policy_(policy),
        adaptation_(adaptation),
        derivation_(derivation),
        looks_(looks),
        read_ahead_(read_ahead),
        holdings_(holdings) {}
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  /// The stash begins to grow: entries are told apart by their place in a growth.
  void begin_growth() noexcept { ++growth_; }

  /// The entry of `tensor`'s storage. One that the program has resized, or given other memory,
  /// since it was saved begins a new entry; with two entries as its owners it is encoded for
  /// neither.
  /// @throws std::exception when there is no memory: nothing has changed
  Entry& find_or_add(const at::Tensor& tensor);

  /// Plans entries whose storage nobody else owns any more, and makes room for them in the window.
  /// @param at_most Owned entries that are looked at @param but One that stays as it is, or null
  /// @param ready What is to be settled is added; each is held once for that
  void collect(std::size_t at_most, const Entry* but, Entries& ready);

  /// So many bytes of a device's (Holding::host: of the host's) leave the window, the oldest first:
  /// memory has run out.
  void clear_window(int device, std::size_t bytes, Entries& ready);

  /// An entry of the window goes.
  void forget_in_window(Entry& entry);

 private:
  bool plan(Entry& entry, Entries& ready) noexcept;
  void leave_window(Entry& entry, Entries& ready);
  void start_settling(Entry& entry, Entries& ready);

  const bool is_dry_run_;
  EntryLists& lists_;
  PolicyInForce& policy_;
  Adaptation& adaptation_;
  Derivation& derivation_;
  GuardLooks& looks_;
  ReadAhead& read_ahead_;
  const Holdings& holdings_;
  std::uint64_t growth_ = 0;  // how often the stash began to grow
};

}  // namespace cinch::hooks
