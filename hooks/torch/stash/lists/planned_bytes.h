// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

/// Sums of the stored bytes that entries' plans expect. Limits and policies go by these, since they
/// don't depend on the speed of encoding. Not thread-safe: the stash's lock guards it.
class PlannedBytes {
 public:
  void add(const Plan& plan) noexcept {
    all_ += plan.stored_bytes;
    offloaded_ += plan.offloaded_bytes();
  }
  void remove(const Plan& plan) noexcept {
    all_ -= plan.stored_bytes;
    offloaded_ -= plan.offloaded_bytes();
  }

  /// An entry that was added enters the window, where it stays raw and in place, or leaves it.
  void enter_window(const Plan& plan) noexcept {
    window_ += plan.stored_bytes;
    offloaded_ -= plan.offloaded_bytes();
  }
  void leave_window(const Plan& plan) noexcept {
    window_ -= plan.stored_bytes;
    offloaded_ += plan.offloaded_bytes();
  }

  std::uint64_t all() const noexcept { return all_; }

  /// Bytes of entries that are not in the window, without what is moved to the host.
  std::uint64_t out_of_window() const noexcept { return all_ - offloaded_ - window_; }

 private:
  std::uint64_t all_ = 0;
  std::uint64_t offloaded_ = 0;  // part of all_ that is moved to the host, without the window's
  std::uint64_t window_ = 0;     // part of all_ in the window
};

}  // namespace cinch::hooks
