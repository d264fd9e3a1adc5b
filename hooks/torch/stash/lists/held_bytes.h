// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {

/// The bytes that the stash holds, by Entry::Place. Not thread-safe: the stash's lock guards it.
class HeldBytes {
 public:
  // Raw bytes.
  std::uint64_t owned = 0;  ///< of entries that the program owns too
  std::uint64_t window = 0;
  std::uint64_t settling = 0;
  std::uint64_t unsaved = 0;  ///< of planned entries that are not there without Cinch

  /// `entry` has been settled.
  void add(const Entry& entry) {
    settled_raw_ += entry.raw_bytes;
    settled_ += entry.stored_bytes();
    if (entry.device == nullptr) return;
    const std::uint64_t now = on_device_[entry.device->index()] += entry.stored_bytes();
    auto& most = most_on_device_[entry.device->index()];
    most = std::max(most, now);
  }

  /// A settled entry is deleted.
  void remove(const Entry& entry) {
    settled_raw_ -= entry.raw_bytes;
    shrink(entry, entry.stored_bytes());
    offloaded_ -= entry.offloaded_bytes();
  }

  /// A settled entry takes `bytes` less where its storage was.
  void shrink(const Entry& entry, std::size_t bytes) {
    settled_ -= bytes;
    if (entry.device != nullptr) on_device_[entry.device->index()] -= bytes;
  }

  /// `bytes` of a settled entry were moved from its device to the host.
  void offload(const Entry& entry, std::size_t bytes) {
    shrink(entry, bytes);
    offloaded_ += bytes;
  }

  /// Raw size of all entries but the `owned`, which cost nothing extra for being saved, and the
  /// `unsaved`.
  std::uint64_t raw() const noexcept { return settled_raw_ + window + settling - unsaved; }
  /// The bytes that all but the `owned` take where their storages were.
  std::uint64_t stored() const noexcept { return settled_ + window + settling; }
  /// The bytes of these that were moved from devices to the host.
  std::uint64_t offloaded() const noexcept { return offloaded_; }
  std::uint64_t all() const noexcept { return stored() + offloaded_ + owned; }
  /// Bytes of settled entries on a CUDA device: now, and at most so far.
  std::uint64_t on_device(int index) const noexcept { return on_device_[at(index)]; }
  std::uint64_t most_on_device(int index) const noexcept { return most_on_device_[at(index)]; }

 private:
  static std::size_t at(int index) noexcept { return static_cast<std::size_t>(index); }

  std::uint64_t settled_raw_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t offloaded_ = 0;
  // By index, which is a signed byte.
  std::array<std::uint64_t, 128> on_device_{};
  std::array<std::uint64_t, 128> most_on_device_{};
};

}  // namespace cinch::hooks
