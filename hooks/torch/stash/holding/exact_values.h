// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hooks/torch/stash/adapting/adaptation.h"
#include "hooks/torch/stash/adapting/dry_run.h"
#include "hooks/torch/stash/adapting/gradient_probe.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/side_work.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// Measurements for adaptive policies on the exact values of an entry, where the stash has them:
/// raw, in its sample, or encoded losslessly. Thread-safe; no lock is held.
class ExactValues {
 public:
  /// @param dry_run Null in ordinary runs
  ExactValues(EntryLists& lists, PolicyInForce& policy, Adaptation& adaptation, DryRun* dry_run,
              const Holdings& holdings, SideWork& side)
      : lists_(lists),
        policy_(policy),
        adaptation_(adaptation),
        dry_run_(dry_run),
        holdings_(holdings),
        side_(side) {}
  ExactValues(const ExactValues&) = delete;
  ExactValues& operator=(const ExactValues&) = delete;

  /// The exact values; null where only approximations are left, or a part, or the entry is derived.
  /// Waits for the side thread if that is to encode the entry: whether exact values are left must
  /// not depend on how far it got, and to lend them would keep the entry from being encoded.
  /// @throws c10::Error when there is no memory
  c10::Storage of(Entry& entry);

  /// Sums of squared ranges of the entry's planes; empty where they aren't known.
  std::vector<float> plane_ranges(Entry& entry);

  /// The values as one choice of the entry's menu would restore them.
  struct Trial {
    std::uint32_t index = 0;  ///< of the choice
    c10::Storage values;
  };
  /// Encodes and decodes `entry` by each choice that the policy wants tried. Where a part of its
  /// values is exact, the choice is tried on that part; the rest is as `probe` read it.
  /// Costs time and memory. @param probe The run of a node that read the exact values
  std::vector<Trial> trials(Entry& entry, const GradientProbe& probe);

 private:
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> plans(const Entry& entry);
  c10::Storage held(Entry& entry);

  EntryLists& lists_;
  PolicyInForce& policy_;
  Adaptation& adaptation_;
  DryRun* const dry_run_;
  const Holdings& holdings_;
  SideWork& side_;
};

}  // namespace cinch::hooks
