// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/holding/device_parts.h"
#include "hooks/torch/stash/holding/holding.h"

namespace cinch::hooks {

/// Entries on devices whose encoded size is not known beforehand (docs/cuda.md). They are encoded
/// into memory of the upper bound. Their sources stay until the host knows the encoded size; then
/// either the source is freed and the encoding shrinks, or the encoding is freed. The host asks
/// whenever the stash is at work anyway. The bytes of sources and encodings are bounded
/// (PolicyInForce::in_flight_limit). An entry without room is put off until there is room or
/// backward reads it. As many bytes again may be put off; then the host, which is far ahead of the
/// device, waits for room. It also waits if memory has run out. An entry is always encoded: what
/// backward reads must not depend on a device's speed.
/// Thread-safe; no lock is held, unless a comment says otherwise.
class UnsizedEncodings {
 public:
  explicit UnsizedEncodings(const DeviceParts& parts);
  UnsizedEncodings(const UnsizedEncodings&) = delete;
  UnsizedEncodings& operator=(const UnsizedEncodings&) = delete;

  /// See Holding::room_for and carried_out.
  std::optional<Holding::Room> room_for(Entry& entry, EntryKeeper::When when);
  void carried_out(Entry& entry, const Holding::Room& room);

  /// Backward reads `entry`: encodes it if it was put off, with or without room.
  void settle_put_off(Entry& entry);
  /// Encodes the oldest entry that was put off, if there is room. @return whether it did
  bool settle_put_off(int device);

  /// Applies outcomes that have arrived, then encodes put-off entries that now have room. Doesn't
  /// wait.
  void take_outcomes(int device);

  /// Applies arrived outcomes in the order of the encodings, and waits for further ones until
  /// `bytes` have been freed. @return bytes freed
  std::size_t await_outcomes(int device, std::size_t bytes);

  /// Figures of the sources and encodings that waited for their size.
  InFlight::Figures figures(int device) const { return bytes_.figures(device); }

 private:
  bool begin(const Entry& entry, std::size_t bytes);
  bool has_put_off_too_much(const Entry& entry) const;
  void put_off(Entry& entry);
  bool take_back(Entry& entry);
  std::size_t take_outcome(Entry& entry);
  std::optional<std::size_t> give_up_source_or_encoding(Entry& entry);
  std::size_t shrink_to_size(Entry& entry);

  const DeviceParts stash_;
  InFlight bytes_;
};

}  // namespace cinch::hooks
