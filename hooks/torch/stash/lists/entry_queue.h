// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {

/// Entries on devices, in the order in which they came, and the sums of their stored bytes. An
/// entry is in one queue at most and knows its place in it. The stash's lock guards it.
class EntryQueue {
 public:
  /// Needs no lock: whoever has put an entry in, or was told of that, sees it.
  bool is_empty() const noexcept { return size_.load(std::memory_order_relaxed) == 0; }

  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Of one device's.
  std::uint64_t bytes(int device) const noexcept {
    const auto known = bytes_of_.find(device);
    return known == bytes_of_.end() ? 0 : known->second;
  }

  /// @pre entry.device is set
  void push_back(Entry& entry) {
    entry.place_index = first_ + static_cast<std::uint32_t>(entries_.size());
    entries_.push_back(&entry);
    entry.device->queue = this;
    size_.fetch_add(1, std::memory_order_relaxed);
    count(entry, entry.stored_bytes());
  }

  /// Puts an entry that was removed in front. @pre entry.device is set
  void push_front(Entry& entry) {
    entries_.push_front(&entry);
    entry.place_index = --first_;
    entry.device->queue = this;
    size_.fetch_add(1, std::memory_order_relaxed);
    count(entry, entry.stored_bytes());
  }

  /// Calls `look` with each entry, the oldest first. @pre `look` changes no queue
  template <typename Look>
  void for_each(const Look& look) const {
    for (Entry* entry : entries_) {
      if (entry != nullptr) look(*entry);
    }
  }

  /// @pre entry.device->queue is this; entry.stored_bytes() has not changed since it was added
  void remove(Entry& entry) noexcept {
    entries_[entry.place_index - first_] = nullptr;
    entry.device->queue = nullptr;
    size_.fetch_sub(1, std::memory_order_relaxed);
    count(entry, -entry.stored_bytes());
    for (; !entries_.empty() && entries_.front() == nullptr; entries_.pop_front()) ++first_;
    // Else empty places would pile up behind an entry that never leaves.
    while (!entries_.empty() && entries_.back() == nullptr) entries_.pop_back();
  }

  /// Length of the list, including empty places between entries.
  std::size_t places() const noexcept { return entries_.size(); }

  /// The oldest entry of one device, or (-1) of any; null when there is none.
  Entry* oldest(int device) const noexcept {
    for (Entry* entry : entries_) {
      if (entry != nullptr && (device < 0 || entry->device_index() == device)) return entry;
    }
    return nullptr;
  }

 private:
  // Adds `bytes`, modulo 2^64.
  void count(const Entry& entry, std::uint64_t bytes) {
    bytes_ += bytes;
    bytes_of_[entry.device_index()] += bytes;
  }

  std::deque<Entry*> entries_;  // null where one left
  std::atomic<std::size_t> size_{0};
  std::uint32_t first_ = 0;  // place_index of the first
  std::uint64_t bytes_ = 0;
  std::map<int, std::uint64_t> bytes_of_;  // by device
};

}  // namespace cinch::hooks
