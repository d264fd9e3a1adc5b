// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include <boost/intrusive/set.hpp>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

struct Region;
struct Wait;

/// What a range of addresses is at the moment.
enum class State : std::uint8_t {
  hole,     ///< nothing is mapped; in its pool's holes
  free,     ///< mapped, ready for its stream; in its pool's free blocks
  quick,    ///< mapped, ready for its stream; kept by exact size, not coalesced
  pending,  ///< freed, but other streams may still use it; in its pool's pending blocks
  used,     ///< the program's, or freed into a front (Block::in_front)
  claimed,  ///< in no tree, while the thread that holds the lock changes it
  leaving,  ///< its handles were moved; mapped here, too, until the device is done with it
  stuck,    ///< partly mapped because unmapping failed; unusable until a retry succeeds
};

/// A range of addresses. The blocks of a region tile it, in order. Aligned to cache lines, since
/// different threads use neighbouring blocks at the same time.
struct alignas(64) Block
    : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  ///< while used: the bytes that were requested
  Block* previous = nullptr;
  Block* next = nullptr;
  Region* region = nullptr;
  /// While used: streams that use the block besides its own. While pending: what to wait for.
  Wait* waits = nullptr;
  Block* quick_next = nullptr;
  /// Number of its last free among the frees of its stream (Order); 0: idle on the device.
  std::uint64_t free_number = 0;
  std::uint64_t tag = 0;     ///< the caller's, for breakdowns and snapshots
  std::uint32_t stream = 0;  ///< index in Order
  State state = State::hole;
  /// While used: the block was freed into a front (Fronts), or a thread is just freeing it.
  std::atomic<bool> in_front{false};

  Address end() const noexcept { return address + bytes; }
};

/// A handle of physical memory that the allocator owns.
struct Physical {
  Handle handle = 0;
  std::size_t bytes = 0;
  Address address = 0;       ///< where it is used; 0: nowhere
  Region* region = nullptr;  ///< of `address`
  Physical* next = nullptr;  ///< in the list of unmapped handles
  /// At how many addresses besides `address` the driver has it mapped: in blocks that are leaving,
  /// or stuck.
  std::uint32_t old_mappings = 0;
  std::uint8_t pool = 0;  ///< of the region where it is, or was last, mapped
  bool moved = false;     ///< whether it was ever moved from where it was mapped first
};

/// Orders blocks by stream, size, address, so that lower_bound finds the best fit.
struct ByFit {
  using Key = std::tuple<std::uint32_t, std::size_t, Address>;
  static Key key(const Block& b) noexcept { return {b.stream, b.bytes, b.address}; }
  bool operator()(const Block& a, const Block& b) const noexcept { return key(a) < key(b); }
  bool operator()(const Block& a, const Key& b) const noexcept { return key(a) < b; }
  bool operator()(const Key& a, const Block& b) const noexcept { return a < key(b); }
};

using BlockTree = boost::intrusive::set<Block, boost::intrusive::compare<ByFit>>;

}  // namespace cinch::allocator
