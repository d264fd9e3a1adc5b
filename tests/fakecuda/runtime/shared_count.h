// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "settings.h"

namespace fakecuda {

/// How much of each device's memory every process has that names the same file (FAKECUDA_SHARED).
/// A process that has ended, however, has none. @pre for all: the global lock is held
class SharedCount {
 public:
  explicit SharedCount(const char* path);

  /// Locks the file and returns what the other processes have of the device. Bytes
  std::size_t lock_and_sum(int device);
  /// Tells what this process has of it from now on. @pre locked
  void set_and_unlock(int device, std::size_t bytes);

 private:
  static constexpr int most_processes = 64;
  struct Process {
    std::int64_t pid;  ///< 0: nobody's
    std::uint64_t bytes[max_devices];
  };

  Process* own();

  int file_ = -1;
  Process* processes_ = nullptr;
};

/// Null when no file is named.
SharedCount* shared_count();

}  // namespace fakecuda
