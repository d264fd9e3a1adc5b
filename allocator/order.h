// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/driver.h"
#include "allocator/node_pool.h"

namespace cinch::allocator {

/// An event that was recorded in a stream: it is done when all work is that the stream was given
/// before.
struct RecordedEvent {
  Event event = 0;
  bool done = false;
};

/// One thing that a block's next use has to come after.
struct Wait {
  Wait* next = nullptr;
  std::uint32_t stream = 0;
  /// Null: the stream still uses the block, or an event could not be recorded.
  RecordedEvent* recorded = nullptr;
};

/// Streams and events: what is done, what is not, and how the next user waits. query() asks and
/// never waits; synchronize() has the host wait.
///
/// Frees are numbered in each stream. A fence is an event recorded after some of them; when it is
/// done, their memory is idle on the device and may be unmapped. With a synchronous driver
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

  /// The number of a free in the stream that happens now.
  std::uint64_t number_free(std::uint32_t stream) noexcept { return ++streams_[stream].frees; }
  /// Whether all use before that free is known to be done.
  bool idle(std::uint32_t stream, std::uint64_t free_number) const noexcept {
    return driver_.synchronous || free_number <= streams_[stream].done;
  }
  /// Learns which of the stream's frees are done by now; records a fence where that helps.
  void query(std::uint32_t stream) noexcept;
  /// Waits until all of them are. False when the driver failed.
  bool synchronize(std::uint32_t stream) noexcept;

  /// An event behind the stream's work so far; the caller drops it. Null when the driver failed.
  RecordedEvent* record(std::uint32_t stream) noexcept;
  void drop(RecordedEvent* recorded) noexcept;
  /// Whether it is done. Asks the driver unless that is known.
  bool query(RecordedEvent* recorded) noexcept;
  /// False when the driver failed.
  bool synchronize(RecordedEvent* recorded) noexcept;

  /// Adds a wait for the stream to a list. False when the heap has no memory.
  bool add(Wait*& list, std::uint32_t stream) noexcept;
  void clear(Wait*& list) noexcept;
  /// Records events for waits that have none. False while some still have none.
  bool record(Wait* list) noexcept;
  /// Whether everything in the list is done; drops what is.
  bool query(Wait*& list) noexcept;
  /// What `stream` is given next comes after everything in the list; empties it.
  /// False, and the rest of the list stays, when the driver failed.
  bool wait_for(std::uint32_t stream, Wait*& list) noexcept;
  /// What `stream` is given next comes after all that `other` has been given so far.
  bool wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept;
  /// Waits for everything in the list, and empties it. False, and the rest of the list stays, when
  /// the driver failed.
  bool synchronize(Wait*& list) noexcept;

  std::size_t events() const noexcept { return events_.used(); }
  std::size_t waits() const noexcept { return waits_.used(); }

 private:
  struct StreamState {
    Stream stream = 0;
    std::uint64_t frees = 0;
    std::uint64_t done = 0;
    RecordedEvent* fence = nullptr;  // recorded after `fenced` frees
    std::uint64_t fenced = 0;
  };

  void complete_fence(StreamState& state) noexcept;
  template <typename IsDone>
  bool drop_done(Wait*& list, const IsDone& is_done) noexcept;

  const Driver driver_;
  std::vector<StreamState> streams_;
  std::uint32_t last_ = 0;
  NodePool<RecordedEvent> events_;
  NodePool<Wait> waits_;
  std::vector<Event> spare_;  // events that nobody waits for
};

}  // namespace cinch::allocator
