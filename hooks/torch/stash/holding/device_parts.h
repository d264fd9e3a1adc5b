// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/read_ahead.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/lists/device_queues.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// The parts of the stash that DeviceHolding's parts use. All must outlive them.
struct DeviceParts {
  EntryLists& lists;
  DeviceQueues& queues;
  Statistics& statistics;
  const PolicyInForce& policy;
  EntryKeeper& keeper;
  GuardLooks& looks;
  ReadAhead& read_ahead;

  /// See DeviceQueues::add.
  void enqueue(Entry& entry) const { queues.add(entry, policy.settings().offload.min_bytes); }
};

}  // namespace cinch::hooks
