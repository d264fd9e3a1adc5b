// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/blocks/node_pool.h"
#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// An event recorded in a stream. It is done when all earlier work in the stream is done.
struct RecordedEvent {
  Event event = 0;
  std::uint32_t stream = 0;
  std::uint64_t frees = 0;  ///< of the stream before the event
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
/// polls the driver and never waits; only await() blocks the host.
///
/// Frees are numbered in each stream. When an event that was recorded after some of them is done,
/// the memory of those frees is idle on the device and may be unmapped. A fence is an event that
/// was recorded to learn that. With a synchronous driver everything is done at once and no driver
/// call is made. Not thread-safe, but for await(); throws nothing.
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

  /// Records an event after the stream's work so far. The caller must drop() it. Null on failure.
  RecordedEvent* record(std::uint32_t stream) noexcept;
  void drop(RecordedEvent* recorded) noexcept;
  /// Whether the event is done. Asks the driver unless it is known to be.
  bool query(RecordedEvent* recorded) noexcept;

  /// Adds a wait for the stream to a list. False when the heap has no memory.
  bool add(Wait*& list, std::uint32_t stream) noexcept;
  void clear(Wait*& list) noexcept;
  /// Records events for waits that have none. False while some still have none.
  bool record(Wait* list) noexcept;
  /// Removes what is done from the list. Returns whether nothing is left.
  bool query(Wait*& list) noexcept;
  /// Makes later work of `stream` wait on the device for everything in the list, and empties it.
  /// False when the driver failed; the list then stays as it is.
  bool wait_for(std::uint32_t stream, Wait*& list) noexcept;
  /// Makes later work of `stream` wait on the device for all work of `other` so far.
  bool wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept;

  /// Records an event after the work so far of each stream that has frees not known to be done, or
  /// of every stream. Returns a list for await() and then finish().
  Wait* outstanding(bool of_every_stream) noexcept;
  /// Blocks the host until the events in the list are done, or the driver fails. Needs no lock as
  /// long as no other thread has the list.
  void await(const Wait* list) const noexcept;
  /// Notes what await() has found to be done, and empties the list.
  void finish(Wait*& list) noexcept;

  std::size_t events() const noexcept { return events_.used(); }
  std::size_t waits() const noexcept { return waits_.used(); }

 private:
  struct StreamState {
    Stream stream = 0;
    std::uint64_t frees = 0;
    std::uint64_t done = 0;
    RecordedEvent* fence = nullptr;  // not known to be done
  };

  void note_done(const RecordedEvent* recorded) noexcept;

  const Driver driver_;
  std::vector<StreamState> streams_;
  std::uint32_t last_ = 0;
  NodePool<RecordedEvent> events_;
  NodePool<Wait> waits_;
  std::vector<Event> spare_;  // events to use again
};

}  // namespace cinch::allocator
