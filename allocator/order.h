// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/driver.h"
#include "allocator/node_pool.h"

namespace cinch::allocator {

/// An event recorded in a stream. It is done when all earlier work in the stream is done.
struct RecordedEvent {
  Event event = 0;
  bool done = false;
};

/// One stream whose work must finish before a block is used again.
struct Wait {
  Wait* next = nullptr;
  std::uint32_t stream = 0;
  /// Null: the stream still uses the block, or an event could not be recorded.
  RecordedEvent* recorded = nullptr;
};

/// Tracks by events which work of the streams is done, and makes later work wait for it. query()
/// polls the driver and never waits; synchronize() blocks the host.
///
/// Frees are numbered in each stream. A fence is an event recorded after some frees. When it is
/// done, the memory of those frees is idle on the device and may be unmapped. With a synchronous
/// driver everything is done at once and no driver call is made. Not thread-safe; throws nothing.
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

  /// Counts one more free in the stream and returns its number.
  std::uint64_t number_free(std::uint32_t stream) noexcept { return ++streams_[stream].frees; }
  /// Whether the device is known to be done with all work before that free.
  bool idle(std::uint32_t stream, std::uint64_t free_number) const noexcept {
    return driver_.synchronous || free_number <= streams_[stream].done;
  }
  /// Updates which frees of the stream are done. If some are not, a fence is or gets recorded.
  void query(std::uint32_t stream) noexcept;
  /// Blocks the host until all of them are done. False when the driver failed.
  bool synchronize(std::uint32_t stream) noexcept;

  /// Records an event after the stream's work so far. The caller must drop() it. Null on failure.
  RecordedEvent* record(std::uint32_t stream) noexcept;
  void drop(RecordedEvent* recorded) noexcept;
  /// Whether the event is done. Asks the driver unless it is known to be.
  bool query(RecordedEvent* recorded) noexcept;
  /// Blocks the host until the event is done. False when the driver failed.
  bool synchronize(RecordedEvent* recorded) noexcept;

  /// Adds a wait for the stream to a list. False when the heap has no memory.
  bool add(Wait*& list, std::uint32_t stream) noexcept;
  void clear(Wait*& list) noexcept;
  /// Records events for waits that have none. False while some still have none.
  bool record(Wait* list) noexcept;
  /// Removes what is done from the list. Returns whether nothing is left.
  bool query(Wait*& list) noexcept;
  /// Makes later work of `stream` wait on the device for everything in the list, and empties it.
  /// False when the driver failed; the rest of the list then stays.
  bool wait_for(std::uint32_t stream, Wait*& list) noexcept;
  /// Makes later work of `stream` wait on the device for all work of `other` so far.
  bool wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept;
  /// Blocks the host until everything in the list is done, and empties it. False when the driver
  /// failed; what is not done then stays in the list.
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
  std::vector<Event> spare_;  // events to use again
};

}  // namespace cinch::allocator
