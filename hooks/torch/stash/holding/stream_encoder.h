// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/device/result_pool.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

/// Encodes entries on devices, and chooses the stream for it. Thread-safe.
class StreamEncoder {
 public:
  /// @param uses_side_stream Whether the policy's stream is "side"
  StreamEncoder(bool uses_side_stream, const PolicyInForce& policy);
  StreamEncoder(const StreamEncoder&) = delete;
  StreamEncoder& operator=(const StreamEncoder&) = delete;

  /// Enqueues the encoding of entry.raw: on the side stream while the sources that wait for it are
  /// within `in_flight_bytes`, else on the stream of the values, whose next tensors can reuse the
  /// source's memory at once. @return as encode_on_device @pre as there
  bool encode(Entry& entry, const Plan::Candidate& candidate, std::uint32_t seed);

  /// Figures of the sources that waited for a device's side stream.
  InFlight::Figures figures(int device) const { return in_flight_.figures(device); }

 private:
  const bool uses_side_stream_;
  const PolicyInForce& policy_;
  InFlight in_flight_;
  ResultPool results_;
};

}  // namespace cinch::hooks
