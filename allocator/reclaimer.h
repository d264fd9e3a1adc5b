// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cinch::allocator {

/// Frees memory on request; the stash implements it. An allocator calls it when no memory is left,
/// before the program gets an error.
///
/// Called without the allocator's locks, on the thread that requested memory. That thread may be
/// inside one of the reclaimer's own allocations: then it must return 0 rather than wait for
/// itself. Never called while a graph is captured on the device. Throws nothing.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  /// Frees about `bytes` on the device (-1: on the host) by encoding, evicting or offloading. As
  /// after Core::free, any stream may use the memory next. Returns the bytes freed; 0 when nothing
  /// can be freed: then the program is out of memory.
  virtual std::size_t reclaim(int device, std::size_t bytes) noexcept = 0;

  /// Whether the calling thread allocates for the reclaimer itself, not for the program.
  virtual bool is_at_work() const noexcept = 0;

  /// Bytes that the stash holds on the device, for Breakdown::stash.
  virtual std::size_t held_bytes(int device) const noexcept = 0;
};

}  // namespace cinch::allocator
