// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/torch/stash/device/reserve.h"
#include "hooks/torch/stash/holding/device_parts.h"
#include "hooks/torch/stash/holding/stream_encoder.h"

namespace cinch::hooks {

/// Frees memory of a device that has run out, without moving entries to the host. The functions
/// stop after about `bytes`, and return the bytes freed. Thread-safe; no lock is held.
class DeviceRescue {
 public:
  DeviceRescue(const DeviceParts& parts, StreamEncoder& encoder, Reserve& reserve)
      : stash_(parts), encoder_(encoder), reserve_(reserve) {}
  DeviceRescue(const DeviceRescue&) = delete;
  DeviceRescue& operator=(const DeviceRescue&) = delete;

  /// Frees what was decoded or fetched ahead of backward, the entry that backward reads last first.
  /// See ReadAhead::take_all.
  std::size_t give_up_read_ahead(int device, std::size_t bytes);

  /// Frees exact values that are kept for the guard, the oldest first.
  std::size_t give_up_samples(int device, std::size_t bytes);

  /// Encodes settled entries in fewer bits. First raw ones, the oldest first, since their exact
  /// values are there. Then encoded ones, the smallest first, since decoding them takes memory, of
  /// which there is little.
  std::size_t encode_harder(int device, std::size_t bytes);

 private:
  std::size_t give_up_read_ahead(Entry& entry);
  std::size_t give_up_sample(Entry& entry);
  std::size_t encode_harder(Entry& entry);
  bool encode_anew(Entry& entry, const Plan::Candidate& candidate, c10::Storage& freed);

  const DeviceParts stash_;
  StreamEncoder& encoder_;
  Reserve& reserve_;
};

}  // namespace cinch::hooks
