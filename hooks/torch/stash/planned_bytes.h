// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hooks/torch/stash/plan.h"

namespace cinch::hooks {

/// What the plans of all planned entries say that they need: what limits and policies go by, since
/// it doesn't depend on how fast anything is encoded. Not thread-safe: the stash's lock guards it.
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

  /// An entry that was added waits in the window, raw and where it is, or leaves it.
  void enter_window(const Plan& plan) noexcept {
    window_ += plan.stored_bytes;
    offloaded_ -= plan.offloaded_bytes();
  }
  void leave_window(const Plan& plan) noexcept {
    window_ -= plan.stored_bytes;
    offloaded_ += plan.offloaded_bytes();
  }

  std::uint64_t all() const noexcept { return all_; }

  /// Of those that have left the window, where they lie.
  std::uint64_t out_of_window() const noexcept { return all_ - offloaded_ - window_; }

 private:
  std::uint64_t all_ = 0;
  std::uint64_t offloaded_ = 0;  // of all_, what is moved to the host, without the window's
  std::uint64_t window_ = 0;     // of all_, the window's
};

}  // namespace cinch::hooks
