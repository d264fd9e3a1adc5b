// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::allocator {

/// Figures of one allocator. Bytes unless named otherwise.
struct Stats {
  std::size_t allocated = 0;  ///< in used blocks, rounding included
  std::size_t peak_allocated = 0;
  std::size_t requested = 0;  ///< of these, what was asked for
  std::size_t reserved = 0;   ///< physical memory
  std::size_t peak_reserved = 0;
  std::size_t used_blocks = 0;
  std::size_t pending = 0;   ///< freed, but waiting for other streams
  std::size_t quick = 0;     ///< freed, kept by size
  std::size_t unmapped = 0;  ///< physical memory that is mapped nowhere

  std::uint64_t allocations = 0;  ///< ever
  std::uint64_t frees = 0;
  std::uint64_t misses = 0;       ///< allocations that no cached block served
  std::uint64_t stitches = 0;     ///< misses that moved memory
  std::uint64_t moved_bytes = 0;  ///< by these
  std::uint64_t foreign = 0;      ///< blocks taken over from another stream
  std::uint64_t host_waits = 0;   ///< times the host waited for the device
  std::uint64_t reclaims = 0;     ///< times the stash was asked
  std::uint64_t failures = 0;     ///< allocations that found no memory
  std::uint64_t driver_errors = 0;
};

}  // namespace cinch::allocator
