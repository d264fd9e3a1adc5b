// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include <c10/core/Allocator.h>

namespace cinch::hooks {

/// Reserved memory on each CUDA device, for encoding when the device has run out of memory:
/// encoding frees memory, but needs some first. Thread-safe; no call waits for a device.
class Reserve {
 public:
  /// Reserves at least `bytes` of `device`. If there is no memory, the reserve stays as it is.
  void ensure(int device, std::size_t bytes) noexcept;

  /// Gives the device's reserve back to its allocator. @return its bytes, for ensure() afterwards
  std::size_t release(int device) noexcept;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Reserved {
    c10::DataPtr memory;
    std::atomic<std::size_t> bytes{0};  // changes under the lock
  };
  std::mutex mutex_;
  std::array<Reserved, 128> devices_;  // by index, which is a signed byte
};

}  // namespace cinch::hooks
