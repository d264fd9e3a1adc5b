// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/torch/stash/device/device_parts.h"
#include "hooks/torch/stash/device/reserve.h"
#include "hooks/torch/stash/device/stream_encoder.h"

namespace cinch::hooks {

/// What the stash gives up of a device's memory that has run out, without moving it elsewhere.
/// Functions return bytes that are free then. Thread-safe; no lock is held.
class DeviceRescue {
 public:
  DeviceRescue(const DeviceParts& parts, StreamEncoder& encoder, Reserve& reserve)
      : stash_(parts), encoder_(encoder), reserve_(reserve) {}
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

  const DeviceParts stash_;
  StreamEncoder& encoder_;
  Reserve& reserve_;
};

}  // namespace cinch::hooks
