// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cinch::allocator {

/// A quantity that rises and falls.
struct Gauge {
  std::size_t current = 0;
  std::size_t peak = 0;     ///< the largest `current` since the last reset
  std::uint64_t added = 0;  ///< sum of all additions

  void add(std::size_t amount) noexcept {
    current += amount;
    added += amount;
    peak = std::max(peak, current);
  }
  void remove(std::size_t amount) noexcept { current -= amount; }
  void reset_peak() noexcept { peak = current; }
};

/// Figures of one pool: small blocks, or large ones. Bytes unless named otherwise.
///
/// All are exact, except peaks reached while fronts are open (Fronts), that is while threads
/// contend. Blocks in fronts then count towards peaks, at most Config::front_bytes for each front;
/// and the peak of `requested` may miss less than a quantum for each block that a front served.
struct PoolStats {
  Gauge blocks;     ///< used blocks, a count
  Gauge allocated;  ///< in used blocks, rounding included
  Gauge requested;  ///< of these, what the program requested
  Gauge handles;    ///< physical handles, a count
  Gauge reserved;   ///< in these handles

  std::size_t pending_blocks = 0;  ///< freed, but waiting for other streams; a count
  std::size_t pending = 0;
  std::size_t peak_active_blocks = 0;  ///< used and pending blocks, a count
  std::size_t peak_active = 0;
};

/// Figures of one allocator. Bytes unless named otherwise.
struct Stats {
  std::size_t allocated = 0;  ///< in used blocks, rounding included
  std::size_t peak_allocated = 0;
  std::size_t requested = 0;  ///< of these, what the program requested
  std::size_t reserved = 0;   ///< physical memory
  std::size_t peak_reserved = 0;
  std::size_t used_blocks = 0;
  std::size_t peak_requested = 0;
  std::size_t peak_used_blocks = 0;
  std::size_t peak_active = 0;  ///< used and pending
  std::size_t peak_active_blocks = 0;
  std::size_t peak_handles = 0;
  std::size_t pending = 0;   ///< freed, but waiting for other streams
  std::size_t quick = 0;     ///< freed, and kept by size in lists or fronts
  std::size_t unmapped = 0;  ///< physical memory in unmapped handles
  std::size_t leaving = 0;   ///< addresses that moved memory is mapped at until the device is done
  std::size_t peak_leaving = 0;

  std::uint64_t allocations = 0;  ///< ever
  std::uint64_t frees = 0;
  std::uint64_t fronted = 0;            ///< allocations that a front served
  std::uint64_t misses = 0;             ///< allocations that no cached block served
  std::uint64_t stitches = 0;           ///< misses that moved memory
  std::uint64_t moved_bytes = 0;        ///< by stitches
  std::uint64_t moved_early_bytes = 0;  ///< of these, before the device was done with them
  std::uint64_t foreign = 0;            ///< blocks taken over from another stream
  std::uint64_t retries = 0;            ///< allocations that the driver had no new memory for
  std::uint64_t host_waits = 0;         ///< times the host waited for the device
  std::uint64_t created = 0;            ///< physical handles, ever
  std::uint64_t released = 0;
  std::uint64_t reclaims = 0;  ///< times the stash was asked
  std::uint64_t failures = 0;  ///< allocations that found no memory
  std::uint64_t driver_errors = 0;

  std::array<PoolStats, 2> pools;  ///< of small blocks, of large ones
};

}  // namespace cinch::allocator
