// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "policy/adapting/look.h"

namespace cinch::hooks {

/// The bytes that one growth of the stash would have held, counted as the stash does.
struct SimulatedGrowth {
  policy::Footprint footprint;
  std::uint64_t stored_bytes = 0;  ///< as encoded; the footprint's is as planned
  std::uint64_t device_bytes = 0;  ///< raw bytes of entries on devices

  // Entries in the window, oldest first.
  struct Waiting {
    std::size_t raw, planned, stored;
  };
  std::deque<Waiting> window;
  std::size_t window_raw = 0;

  /// @param waits Whether the entry would be encoded, and so enters the window
  void add(std::size_t raw, std::size_t planned, std::size_t stored, bool waits,
           double window_share) {
    footprint.raw_bytes += raw;
    footprint.planned_bytes += planned;
    if (!waits) {
      footprint.stored_bytes += planned;
      stored_bytes += stored;
      return;
    }
    window.push_back({raw, planned, stored});
    window_raw += raw;
    const double limit = window_share * static_cast<double>(footprint.planned_bytes);
    while (static_cast<double>(window_raw) > limit) {
      footprint.stored_bytes += window.front().planned;
      stored_bytes += window.front().stored;
      window_raw -= window.front().raw;
      window.pop_front();
    }
  }

  /// The sums with the entries that are still in the window.
  SimulatedGrowth closed() && {
    footprint.stored_bytes += window_raw;
    stored_bytes += window_raw;
    return std::move(*this);
  }
};

}  // namespace cinch::hooks
