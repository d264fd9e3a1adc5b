// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// Tells which device's allocator reserved an address, since a free is given nothing but a pointer.
/// Reads take no lock. The answer is a hint: it may be wrong while another range is replaced, and
/// for ranges that found no room; the caller then asks all devices. Thread-safe.
class AddressRanges {
 public:
  static constexpr int none = -1;

  /// The owner of the range that holds the address, or none.
  int owner_of(Address address) const noexcept {
    const std::size_t n = used_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < n; ++i) {
      const Range& range = ranges_[i];
      const Address begin = range.begin.load(std::memory_order_acquire);
      if (begin != 0 && address >= begin && address < range.end.load(std::memory_order_relaxed)) {
        return range.owner.load(std::memory_order_relaxed);
      }
    }
    return none;
  }

  /// Does nothing when the table is full.
  void add(Address address, std::size_t bytes, int owner) noexcept {
    const std::lock_guard lock(writers_);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      Range& range = ranges_[i];
      if (range.begin.load(std::memory_order_relaxed) != 0) continue;
      range.end.store(address + bytes, std::memory_order_relaxed);
      range.owner.store(owner, std::memory_order_relaxed);
      range.begin.store(address, std::memory_order_release);
      if (i >= used_.load(std::memory_order_relaxed)) {
        used_.store(i + 1, std::memory_order_release);
      }
      return;
    }
  }

  /// @pre no block of the range is used, so nobody asks for its owner
  void remove(Address address) noexcept {
    const std::lock_guard lock(writers_);
    for (Range& range : ranges_) {
      if (range.begin.load(std::memory_order_relaxed) == address) {
        range.begin.store(0, std::memory_order_release);
      }
    }
  }

  std::mutex& mutex() noexcept { return writers_; }

 private:
  struct Range {
    std::atomic<Address> begin{0};  // 0: nothing here
    std::atomic<Address> end{0};
    std::atomic<int> owner{none};
  };

  // Two ranges a device are usual: small blocks, and large ones.
  std::array<Range, 512> ranges_;
  std::atomic<std::size_t> used_{0};
  std::mutex writers_;
};

}  // namespace cinch::allocator
