// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include <boost/intrusive/set.hpp>

#include "allocator/driver.h"

namespace cinch::allocator {

struct Region;
struct Wait;

/// What a stretch of addresses is at the moment.
enum class State : std::uint8_t {
  hole,     ///< nothing is mapped; in its pool's holes
  free,     ///< mapped, ready for its stream; in its pool's free blocks
  quick,    ///< mapped, ready for its stream; kept by exact size, not coalesced
  pending,  ///< freed, but other streams may still use it; in its pool's pending blocks
  used,     ///< somebody's
  claimed,  ///< being mapped or unmapped, by the thread that holds the lock
  stuck,    ///< partly mapped, since unmapping failed: of no use until that succeeds
};

/// A stretch of addresses. The blocks of a region tile it, in order. In cache lines of its own,
/// since different threads use neighbours at the same time.
struct alignas(64) Block
    : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  ///< while used: what was asked for
  Block* previous = nullptr;
  Block* next = nullptr;
  Region* region = nullptr;
  /// While used: the streams besides its own that use it. While pending: what to wait for.
  Wait* waits = nullptr;
  Block* quick_next = nullptr;
  /// Position of the last use's end among the frees of its stream (Order).
  std::uint64_t free_number = 0;
  std::uint64_t tag = 0;     ///< the caller's, for breakdowns and snapshots
  std::uint32_t stream = 0;  ///< index in Order
  State state = State::hole;
  /// While used: whether it was freed all the same, and waits in a front (Fronts) for its next use.
  std::atomic<bool> in_front{false};

  Address end() const noexcept { return address + bytes; }
};

/// Physical memory that we own.
struct Physical {
  Handle handle = 0;
  std::size_t bytes = 0;
  Address address = 0;       ///< where it is mapped; 0: nowhere
  Region* region = nullptr;  ///< in which, while it is mapped
  Physical* next = nullptr;  ///< in the list of those that are mapped nowhere
  std::uint8_t pool = 0;     ///< where it is, or was last, mapped
  bool moved = false;        ///< whether it is mapped elsewhere than at first
};

/// By stream, then size, then address: best fit is a lower bound.
struct ByFit {
  using Key = std::tuple<std::uint32_t, std::size_t, Address>;
  static Key key(const Block& b) noexcept { return {b.stream, b.bytes, b.address}; }
  bool operator()(const Block& a, const Block& b) const noexcept { return key(a) < key(b); }
  bool operator()(const Block& a, const Key& b) const noexcept { return key(a) < b; }
  bool operator()(const Key& a, const Block& b) const noexcept { return a < key(b); }
};

using BlockTree = boost::intrusive::set<Block, boost::intrusive::compare<ByFit>>;

}  // namespace cinch::allocator
