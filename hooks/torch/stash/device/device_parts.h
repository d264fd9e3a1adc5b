// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/device/device_queues.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/guard_looks.h"
#include "hooks/torch/stash/policy_in_force.h"
#include "hooks/torch/stash/read_ahead.h"
#include "hooks/torch/stash/statistics.h"

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
