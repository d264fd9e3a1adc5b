// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/holding/device_parts.h"

namespace cinch::hooks {

/// Moves settled entries from devices to the host's memory, and copies them back before backward
/// reads them. Thread-safe; no lock is held.
class Offloader {
 public:
  explicit Offloader(const DeviceParts& parts);
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;

  /// Moves `leaving` entries, the oldest first, until the rest fits into the window's limit.
  void move_surplus();

  /// Moves entries of a device, the oldest first, until `bytes` are free. @return bytes freed
  std::size_t move_out(int device, std::size_t bytes);

  /// Enqueues copying `entry` back, if backward still needs it. Gives up one hold on it.
  void fetch_ahead(Entry& entry) noexcept;

  /// Figures of the page-locked memory for offloaded entries.
  PinnedPool::Figures pinned() const { return pinned_.figures(); }

 private:
  bool move_to_host(Entry& entry, std::size_t* left = nullptr);
  void fetch(Entry& entry);
  void say_no_room() noexcept;

  const DeviceParts stash_;
  PinnedPool pinned_;
  std::atomic<bool> said_no_room_{false};
};

}  // namespace cinch::hooks
