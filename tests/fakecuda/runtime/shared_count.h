// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "settings.h"

namespace fakecuda {

/// How much memory of each device the processes use that name the same file (FAKECUDA_SHARED).
/// Ended processes count as using none. All functions: @pre the global lock is held
class SharedCount {
 public:
  explicit SharedCount(const char* path);

  /// Locks the file. @return bytes of the device's memory that the other processes use
  std::size_t lock_and_sum(int device);
  /// Sets how many bytes of it this process uses, and unlocks the file. @pre locked
  void set_and_unlock(int device, std::size_t bytes);

 private:
  static constexpr int most_processes = 64;
  struct Process {
    std::int64_t pid;  ///< 0: free slot
    std::uint64_t bytes[max_devices];
  };

  Process* own();

  int file_ = -1;
  Process* processes_ = nullptr;
};

/// Null when FAKECUDA_SHARED names no file.
SharedCount* shared_count();

}  // namespace fakecuda
