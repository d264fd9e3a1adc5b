// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

/// Sums of planned entries' bytes, raw and as their plans expect them stored. Limits and policies
/// go by these, since they don't depend on the speed of encoding. Not thread-safe: the stash's lock
/// guards it.
class PlannedBytes {
 public:
  void add(const Plan& plan, std::size_t raw_bytes) noexcept {
    raw_ += raw_bytes;
    all_ += plan.stored_bytes;
    offloaded_ += plan.offloaded_bytes();
  }
  void remove(const Plan& plan, std::size_t raw_bytes) noexcept {
    raw_ -= raw_bytes;
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

  /// Raw bytes; none of what nobody saved (Entry::unsaved).
  std::uint64_t raw() const noexcept { return raw_; }

  /// Stored bytes, as expected.
  std::uint64_t all() const noexcept { return all_; }

  /// A growth ends. @param unplanned Raw bytes besides, of entries that are not planned yet
  void note_peak(std::uint64_t unplanned) noexcept { peak_ = std::max(peak_, raw_ + unplanned); }

  /// The most raw bytes at a growth's end.
  std::uint64_t raw_at_peak() const noexcept { return peak_; }

  /// Bytes of entries that are not in the window, without what is moved to the host.
  std::uint64_t out_of_window() const noexcept { return all_ - offloaded_ - window_; }

 private:
  std::uint64_t raw_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t all_ = 0;
  std::uint64_t offloaded_ = 0;  // part of all_ that is moved to the host, without the window's
  std::uint64_t window_ = 0;     // part of all_ in the window
};

}  // namespace cinch::hooks
