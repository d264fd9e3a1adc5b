// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include <c10/core/Allocator.h>

namespace cinch::hooks {

/// Memory of each CUDA device that is put aside for the moment when there is none left: encoding
/// frees memory, but needs some first. Thread-safe; no call waits for a device.
class Reserve {
 public:
  /// Puts `bytes` of `device` aside unless as much is already. Where there is no memory for it,
  /// what was aside before stays.
  void put_aside(c10::Device device, std::size_t bytes) noexcept;

  /// Gives the device's reserve back to its allocator. Returns its bytes, which may be put aside
  /// again afterwards.
  std::size_t release(c10::Device device) noexcept;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Aside {
    c10::DataPtr memory;
    std::size_t bytes = 0;
  };
  std::mutex mutex_;
  std::array<Aside, 128> devices_;  // by index, which is a signed byte
};

}  // namespace cinch::hooks
