// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// Passes every call on, and reports to an observer addresses reserved and given back and, for each
/// handle, memory made accessible and unmapped. What is added is reported after it happened, what
/// is removed before. For one allocator, under whose lock all calls, and the observer's, are made.
class WatchedDriver {
 public:
  enum class Change { reserved, unreserving, mapped, unmapping };
  /// Throws nothing.
  using Observer = std::function<void(Change change, Address address, std::size_t bytes)>;

  WatchedDriver(const Driver& inner, Observer observer)
      : inner_(inner), observer_(std::move(observer)) {}
  WatchedDriver(const WatchedDriver&) = delete;
  WatchedDriver& operator=(const WatchedDriver&) = delete;

  Driver table() noexcept;

 private:
  struct Calls;

  const Driver inner_;
  const Observer observer_;
  std::vector<std::pair<Address, std::size_t>> silent_;  // mapped, but not accessible yet
};

}  // namespace cinch::allocator
