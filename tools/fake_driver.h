// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// The calls of a driver, for counting and failing them.
enum class Call : std::uint8_t {
  reserve,
  unreserve,
  create,
  release,
  map,
  unmap,
  set_access,
  memory_info,
  event_create,
  event_destroy,
  event_record,
  event_query,
  event_synchronize,
  stream_wait,
};
inline constexpr std::size_t call_count = 14;

/// A simulated device: limits, failures on demand, streams whose work is done when a test says so,
/// a clock that a test advances. Thread-safe.
///
/// It tracks the order that streams and events guarantee, so a test can ask whether memory is used
/// again too early (`work`, `ordered`). It counts calls that break the driver's preconditions
/// (`misuses`).
class FakeDriver {
 public:
  struct Options {
    std::size_t granularity = std::size_t{2} << 20;
    std::size_t memory_bytes = std::size_t{1} << 40;
    std::size_t address_bytes = std::size_t{1} << 46;
    std::size_t max_handles = SIZE_MAX;
    /// Whether mapped addresses can be read and written (one memfd backs them); else they are mere
    /// numbers.
    bool backed = false;
    bool synchronous = false;
    /// Whether work is done as soon as a later event is queried.
    bool instant = true;
    /// If not 0, work is done so long after it was issued, by this driver's clock, and `instant`
    /// has no effect: a device that lags behind the host. Nanoseconds.
    std::uint64_t lag = 0;
    /// For how many queries an event says "not ready" although the work before it is done.
    std::uint32_t event_delay = 0;
  };

  FakeDriver() : FakeDriver(Options()) {}
  explicit FakeDriver(const Options& options);
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  ~FakeDriver();

  Driver table() noexcept;

  // Failures.

  /// The `nth` call of this kind from now on (1: the next) fails with `status`.
  void fail(Call call, std::uint64_t nth, Status status = Status::failed);
  /// The `nth` call of any kind from now on fails, event_query with Status::failed too.
  void fail_any(std::uint64_t nth);
  /// Every call fails with this probability, drawn from a sequence of its own seeded by `seed`.
  void fail_randomly(double probability, std::uint64_t seed);
  void stop_failing();

  // Streams.

  /// One piece of work in a stream.
  struct Work {
    Stream stream = 0;
    std::uint64_t number = 0;
  };
  /// Gives `stream` work to do.
  Work work(Stream stream);
  /// Whether `work` is done, or runs before all later work of `stream`.
  bool ordered(const Work& work, Stream stream) const;
  bool done(const Work& work) const;
  /// Finishes all work of `stream`, and all that it waits for, before its time.
  void complete(Stream stream);
  void complete_all();

  void advance(std::uint64_t nanoseconds);

  /// Sets a callback for every unmap that is not failed on purpose; it is called before the unmap.
  void on_unmap(std::function<void(Address, std::size_t)> callback);
  /// Sets a callback for every event_synchronize that is not failed on purpose; it is called before
  /// the event is done.
  void on_synchronize(std::function<void()> callback);

  // Figures.

  std::uint64_t calls(Call call) const;
  std::uint64_t calls() const;
  std::size_t handles() const;
  std::size_t created_bytes() const;
  std::size_t peak_created_bytes() const;
  std::size_t mapped_bytes() const;
  std::size_t reserved_address_bytes() const;
  std::size_t events() const;
  /// Calls that broke a precondition (they failed).
  std::uint64_t misuses() const;
  /// Whether the whole range is mapped and accessible.
  bool accessible(Address address, std::size_t bytes) const;
  /// A part of a handle.
  struct Piece {
    Handle handle = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    bool operator==(const Piece&) const = default;
  };
  /// What is mapped in a range, in the order of addresses.
  std::vector<Piece> behind(Address address, std::size_t bytes) const;

 private:
  using Clock = std::map<Stream, std::uint64_t>;
  struct StreamState {
    std::uint64_t issued = 0;
    std::uint64_t done = 0;
    Clock after;  // work of other streams that the stream's next work runs after
    // With a lag: when each piece of work that is not done will be, in the order of issue.
    struct Due {
      std::uint64_t number;
      std::uint64_t time;
    };
    std::deque<Due> running;
  };
  struct Physical {
    std::size_t bytes;
    std::size_t offset;    // in the memfd
    std::size_t mappings;  // at how many addresses
  };
  struct Mapping {
    std::size_t bytes;
    Handle handle;
    bool accessible;
  };
  struct Calls;  // the table's functions

  std::optional<Status> injected(Call call);
  Status misused();
  bool reserved(Address address, std::size_t bytes) const;
  void catch_up() const;
  bool is_done(const Clock& clock) const;
  std::size_t take_offset(std::size_t bytes);

  const Options options_;
  mutable std::mutex mutex_;
  std::size_t memory_bytes_;
  int memory_ = -1;  // the memfd
  std::size_t next_offset_ = 0;
  std::multimap<std::size_t, std::size_t> free_offsets_;  // bytes to offset
  Address next_address_;
  std::map<Address, std::size_t> reservations_;
  std::map<Address, Mapping> mappings_;
  std::map<Handle, Physical> handles_;
  Handle next_handle_ = 1;
  std::map<Event, Clock> events_;
  std::map<Event, std::uint32_t> early_queries_;  // since the event was recorded; see event_delay
  Event next_event_ = 1;
  mutable std::map<Stream, StreamState> streams_;
  std::size_t created_ = 0;
  std::size_t peak_created_ = 0;
  std::size_t mapped_ = 0;
  std::size_t address_used_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t misuses_ = 0;
  std::array<std::uint64_t, call_count> calls_{};
  struct Planned {
    std::uint64_t left = 0;  // 0: none planned
    Status status = Status::failed;
  };
  std::array<Planned, call_count> planned_{};
  std::uint64_t planned_any_ = 0;
  double probability_ = 0;
  std::uint64_t random_ = 0;
  std::function<void(Address, std::size_t)> on_unmap_;
  std::function<void()> on_synchronize_;
};

}  // namespace cinch::allocator
