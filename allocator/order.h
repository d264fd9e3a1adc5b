// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/driver.h"
#include "allocator/node_pool.h"

namespace cinch::allocator {

/// A moment in a stream: when all work that it was given so far is done.
struct Moment {
  Event event = 0;
  bool done = false;
};

/// One thing that a block's next use has to come after.
struct Wait {
  Wait* next = nullptr;
  std::uint32_t stream = 0;
  Moment* moment =
      nullptr;  ///< null: still in use by the stream, or an event could not be recorded
};

/// Streams and events: what is done, what is not, and how the next user waits.
///
/// Frees are numbered in each stream. A fence is an event recorded after some of them; when it has
/// happened, their memory is idle on the device and may be unmapped. With a synchronous driver
/// everything is done at once and no driver call is made. Not thread-safe; throws nothing.
class Order {
 public:
  explicit Order(const Driver& driver) : driver_(driver) {}
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;
  ~Order();

  static constexpr std::uint32_t no_stream = UINT32_MAX;

  /// The stream's index; no_stream when the heap has no memory.
  std::uint32_t index_of(Stream stream) noexcept;
  Stream stream(std::uint32_t index) const noexcept { return streams_[index].stream; }
  std::uint32_t stream_count() const noexcept {
    return static_cast<std::uint32_t>(streams_.size());
  }

  /// Numbers a free in the stream.
  std::uint64_t stamp(std::uint32_t stream) noexcept { return ++streams_[stream].frees; }
  /// Whether all use before the free with this number is known to have ended.
  bool idle(std::uint32_t stream, std::uint64_t stamp) const noexcept {
    return driver_.synchronous || stamp <= streams_[stream].done;
  }
  /// Learns which frees are done by now; asks the driver, and records a fence where it helps.
  void look(std::uint32_t stream) noexcept;
  /// The host waits until the stream's frees are done. False when the driver failed.
  bool finish(std::uint32_t stream) noexcept;

  /// Now, in the stream; the caller drops it. Null when the driver failed.
  Moment* moment(std::uint32_t stream) noexcept;
  void drop(Moment* moment) noexcept;
  /// Whether it has come. Asks the driver unless it is known.
  bool happened(Moment* moment) noexcept;
  /// The host waits for it. False when the driver failed.
  bool finish(Moment* moment) noexcept;

  /// Adds a wait for the stream to a list. False when the heap has no memory.
  bool add(Wait*& list, std::uint32_t stream) noexcept;
  void clear(Wait*& list) noexcept;
  /// Records events for waits that have none. False while some still have none.
  bool record(Wait* list) noexcept;
  /// Whether everything in the list has happened; drops what has.
  bool settle(Wait*& list) noexcept;
  /// What `stream` is given next comes after everything in the list; empties it.
  /// False, and the rest of the list stays, when the driver failed.
  bool wait_for(std::uint32_t stream, Wait*& list) noexcept;
  /// What `stream` is given next comes after all that `other` has been given so far.
  bool wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept;
  /// The host waits for everything in the list.
  bool finish(Wait*& list) noexcept;

  std::size_t moments() const noexcept { return moments_.used(); }
  std::size_t waits() const noexcept { return waits_.used(); }

 private:
  struct StreamState {
    Stream stream = 0;
    std::uint64_t frees = 0;
    std::uint64_t done = 0;
    Moment* fence = nullptr;  // recorded after `fenced` frees
    std::uint64_t fenced = 0;
  };

  void passed(StreamState& state) noexcept;

  const Driver driver_;
  std::vector<StreamState> streams_;
  std::uint32_t last_ = 0;
  NodePool<Moment> moments_;
  NodePool<Wait> waits_;
  std::vector<Event> spare_;  // events that nobody waits for
};

}  // namespace cinch::allocator
