// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "hooks/torch/stash/device/device_parts.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/holding.h"

namespace cinch::hooks {

/// Entries of devices whose encoded sizes only the data decide. They are encoded into memory for
/// the most that it may take, and their sources stay until the host sees what it took; then one of
/// the two goes, and what was encoded shrinks. The host looks whenever the stash is at work anyway,
/// and waits only where memory has run out. What is held so is bounded; what finds no room is
/// encoded later, when there is some or when backward reads it, and not left out: what backward
/// reads must not depend on how fast a device is. Thread-safe; no lock is held where nothing else
/// is said.
class UnsizedEncodings {
 public:
  explicit UnsizedEncodings(const DeviceParts& parts);
  UnsizedEncodings(const UnsizedEncodings&) = delete;
  UnsizedEncodings& operator=(const UnsizedEncodings&) = delete;

  /// See Holding::room_for and carried_out.
  std::optional<Holding::Room> room_for(Entry& entry, EntryKeeper::When when);
  void carried_out(Entry& entry, const Holding::Room& room);

  /// What backward reads is encoded first, room or not.
  void settle_put_off(Entry& entry);
  /// Encodes the oldest that was put off, if there is room for it. @return whether that was done
  bool settle_put_off(int device);

  /// Goes by what the host knows by now, and encodes what there is room for then. Doesn't wait.
  void take_outcomes(int device);

  /// Goes by what the host knows, in the order in which it was encoded, and waits for more until so
  /// many bytes are free. @return bytes freed
  std::size_t await_outcomes(int device, std::size_t bytes);

  /// What waited for the size that its encoding came to.
  InFlight::Figures figures(int device) const { return bytes_.figures(device); }

 private:
  void put_off(Entry& entry);
  bool take_back(Entry& entry);
  std::size_t take_outcome(Entry& entry);
  std::size_t give_up_source_or_encoding(Entry& entry);
  std::size_t shrink_to_size(Entry& entry);

  const DeviceParts stash_;
  InFlight bytes_;
};

}  // namespace cinch::hooks
