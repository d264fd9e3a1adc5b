// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "allocator/driver.h"

namespace cinch::allocator {

/// Wraps another driver and writes down every call but the clock's. Thread-safe.
class RecordingDriver {
 public:
  /// One call: its arguments in the table's order (outputs as they came back), and its outcome.
  struct Record {
    Call call;
    Status status;
    std::uint64_t arguments[3];
  };

  explicit RecordingDriver(const Driver& wrapped) : wrapped_(wrapped) {}
  RecordingDriver(const RecordingDriver&) = delete;
  RecordingDriver& operator=(const RecordingDriver&) = delete;

  Driver table() noexcept;

  /// Everything so far.
  std::vector<Record> records() const;
  void clear();
  /// One line a call: "map 1099511627776 2097152 7: ok".
  std::string text() const;

 private:
  struct Calls;

  Status note(Call call, Status status, std::uint64_t a = 0, std::uint64_t b = 0,
              std::uint64_t c = 0);

  const Driver wrapped_;
  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

}  // namespace cinch::allocator
