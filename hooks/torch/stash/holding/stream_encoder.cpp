// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/stream_encoder.h"

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/on_device/offload.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {
StreamEncoder::StreamEncoder(bool uses_side_stream, const PolicyInForce& policy)
    : uses_side_stream_(uses_side_stream), policy_(policy), results_(pinned_host()) {
  register_fork_lock(results_.mutex());
  register_fork_lock(in_flight_.mutex());
}

bool StreamEncoder::encode(Entry& entry, const Plan::Candidate& candidate, std::uint32_t seed) {
  const codecs::RandomKey key = {seed, entry.id, entry.step};
  const int device = entry.device_index();
  const bool on_side_stream =
      uses_side_stream_ && in_flight_.begin(device, entry.raw_bytes, policy_.in_flight_limit());
  const c10::Stream stream =
      on_side_stream ? own_stream(Own::side, entry.raw.device()) : entry.device->saved_on;
  bool enqueued = false;
  if_memory_allows([&] { enqueued = encode_on_device(entry, candidate, key, stream, results_); });
  if (on_side_stream) {
    in_flight_.enqueued(device, entry.raw_bytes, enqueued ? when_encoded(entry) : nullptr);
  }
  return enqueued;
}

}  // namespace cinch::hooks
