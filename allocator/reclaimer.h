// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cinch::allocator {

/// Who holds memory that could be had back: the stash. Registered with an allocator, which asks
/// when it has none left and before the program is told so.
///
/// Called without the allocator's locks, in whatever thread asked for memory: also from inside the
/// reclaimer's own allocations, where it has to answer 0 rather than wait for itself. Never while a
/// graph is captured on the device. Throws nothing.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  /// Frees about `bytes` of the device's memory (-1: the host's), by encoding, evicting or
  /// offloading; in time for the next user of any stream, as Core::free does. Returns the bytes
  /// that it freed, 0 when it can't: then the program is out of memory.
  virtual std::size_t reclaim(int device, std::size_t bytes) noexcept = 0;

  /// Bytes that it holds on the device, for the breakdown.
  virtual std::size_t held_bytes(int device) const noexcept = 0;
};

}  // namespace cinch::allocator
