// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/torch/stash/device/device_queues.h"
#include "hooks/torch/stash/device/reserve.h"
#include "hooks/torch/stash/device/stream_encoder.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/guard_looks.h"
#include "hooks/torch/stash/policy_in_force.h"
#include "hooks/torch/stash/read_ahead.h"
#include "hooks/torch/stash/statistics.h"

namespace cinch::hooks {

/// What the stash gives up of a device's memory that has run out, without moving it elsewhere.
/// Functions return bytes that are free then. Thread-safe; no lock is held.
class DeviceRescue {
 public:
  DeviceRescue(EntryLists& lists, DeviceQueues& queues, Statistics& statistics,
               const PolicyInForce& policy, EntryKeeper& keeper, GuardLooks& looks,
               ReadAhead& read_ahead, StreamEncoder& encoder, Reserve& reserve)
      : lists_(lists),
        queues_(queues),
        statistics_(statistics),
        policy_(policy),
        keeper_(keeper),
        looks_(looks),
        read_ahead_(read_ahead),
        encoder_(encoder),
        reserve_(reserve) {}
  DeviceRescue(const DeviceRescue&) = delete;
  DeviceRescue& operator=(const DeviceRescue&) = delete;

  /// Gives up copies that were made ahead of backward, those that it reads last first, and makes no
  /// more of them in this growth and fewer of what is on the host in the next ones.
  std::size_t give_up_read_ahead(int device, std::size_t bytes);

  /// Gives up exact values that were kept for the guard, the oldest first.
  std::size_t give_up_samples(int device, std::size_t bytes);

  /// Encodes what is held in fewer bits: what is raw first, the oldest first, since its exact
  /// values are there; then what was encoded, the smallest first, since it has to be decoded into
  /// memory of which there is little.
  std::size_t encode_harder(int device, std::size_t bytes);

 private:
  std::size_t give_up_read_ahead(Entry& entry);
  std::size_t give_up_sample(Entry& entry);
  std::size_t encode_harder(Entry& entry);
  bool encode_anew(Entry& entry, const Plan::Candidate& candidate, c10::Storage& freed);

  EntryLists& lists_;
  DeviceQueues& queues_;
  Statistics& statistics_;
  const PolicyInForce& policy_;
  EntryKeeper& keeper_;
  GuardLooks& looks_;
  ReadAhead& read_ahead_;
  StreamEncoder& encoder_;
  Reserve& reserve_;
};

}  // namespace cinch::hooks
