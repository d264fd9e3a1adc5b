// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cinch::allocator {

/// A quantity that comes and goes.
struct Gauge {
  std::size_t current = 0;
  std::size_t peak = 0;     ///< the largest `current` since the last reset
  std::uint64_t added = 0;  ///< all that ever came

  void add(std::size_t amount) noexcept {
    current += amount;
    added += amount;
    peak = std::max(peak, current);
  }
  void remove(std::size_t amount) noexcept { current -= amount; }
  void reset_peak() noexcept { peak = current; }
};

/// Figures of one pool: of small blocks, or of large ones. Bytes unless named otherwise.
///
/// Peaks are exact as long as there are no fronts (Fronts), so while threads do not keep each other
/// waiting. What is in fronts counts towards them, at most Config::front_bytes for each of a
/// stream's fronts; what is asked for of blocks that fronts serve may be missing, less than a
/// quantum a block. Everything else is exact.
struct PoolStats {
  Gauge blocks;     ///< used blocks, a count
  Gauge allocated;  ///< in used blocks, rounding included
  Gauge requested;  ///< of these, what was asked for
  Gauge handles;    ///< physical handles, a count
  Gauge reserved;   ///< in these

  std::size_t pending_blocks = 0;  ///< freed, but waiting for other streams; a count
  std::size_t pending = 0;
  std::size_t peak_active_blocks = 0;  ///< used and pending blocks, a count
  std::size_t peak_active = 0;
};

/// Figures of one allocator. Bytes unless named otherwise.
struct Stats {
  std::size_t allocated = 0;  ///< in used blocks, rounding included
  std::size_t peak_allocated = 0;
  std::size_t requested = 0;  ///< of these, what was asked for
  std::size_t reserved = 0;   ///< physical memory
  std::size_t peak_reserved = 0;
  std::size_t used_blocks = 0;
  std::size_t peak_requested = 0;
  std::size_t peak_used_blocks = 0;
  std::size_t peak_active = 0;  ///< used and pending
  std::size_t peak_active_blocks = 0;
  std::size_t peak_handles = 0;
  std::size_t pending = 0;   ///< freed, but waiting for other streams
  std::size_t quick = 0;     ///< freed, kept by size, also in fronts
  std::size_t unmapped = 0;  ///< physical memory that is mapped nowhere

  std::uint64_t allocations = 0;  ///< ever
  std::uint64_t frees = 0;
  std::uint64_t fronted = 0;      ///< allocations that a front served
  std::uint64_t misses = 0;       ///< allocations that no cached block served
  std::uint64_t stitches = 0;     ///< misses that moved memory
  std::uint64_t moved_bytes = 0;  ///< by these
  std::uint64_t foreign = 0;      ///< blocks taken over from another stream
  std::uint64_t retries = 0;      ///< allocations that the driver had no new memory for
  std::uint64_t host_waits = 0;   ///< times the host waited for the device
  std::uint64_t created = 0;      ///< physical handles, ever
  std::uint64_t released = 0;
  std::uint64_t reclaims = 0;  ///< times the stash was asked
  std::uint64_t failures = 0;  ///< allocations that found no memory
  std::uint64_t driver_errors = 0;

  std::array<PoolStats, 2> pools;  ///< of small blocks, of large ones
};

}  // namespace cinch::allocator
