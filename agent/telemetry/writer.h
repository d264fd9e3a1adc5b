// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "agent/telemetry/layout.h"
#include "agent/telemetry/process.h"

namespace cinch::telemetry {

/// A process's own segment. The calls between `create` and `remove` make no system call, allocate
/// nothing, take no lock and never wait.
///
/// One thread at a time publishes (`Turn`); a thread that comes meanwhile skips its publication.
/// Events may come from any thread.
class Writer {
 public:
  /// Makes the segment of `identity`, mode 0600, in `directory`, and marks it as ready. Null on
  /// failure: `error` says why.
  /// @param step Called between any two steps; may be null.
  static std::unique_ptr<Writer> create(const std::string& directory, const Identity& identity,
                                        std::string& error, void (*step)() = nullptr);

  /// Leaves the segment mapped: other threads may still use it. `remove` deletes the file.
  ~Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// The right to publish; converts to false when another thread has it.
  class Turn {
   public:
    explicit Turn(Writer& writer) noexcept
        : writer_(writer), mine_(!writer.busy_.exchange(true, std::memory_order_acquire)) {}
    ~Turn() {
      if (mine_) writer_.busy_.store(false, std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const noexcept { return mine_; }

   private:
    Writer& writer_;
    const bool mine_;
  };

  // @pre for all of the following, unless they say otherwise: this thread has the turn.

  template <typename Step = NoStep>
  void publish(const LiveFigures& figures, Step step = {}) noexcept {
    const std::uint64_t next = segment_->published.load(std::memory_order_relaxed) + 1;
    segment_->live[next % 2].store(figures, step);
    segment_->published.store(next, std::memory_order_release);
    step();
  }

  /// Returns the new row's number; most_rows when there is no room.
  template <typename Step = NoStep>
  std::size_t add_row(const RowKey& key, Step step = {}) noexcept {
    const std::uint64_t used = segment_->rows_used.load(std::memory_order_relaxed);
    if (used == most_rows) return most_rows;
    segment_->rows[used].key = key;
    step();
    segment_->rows_used.store(used + 1, std::memory_order_release);
    step();
    return used;
  }
  template <typename Step = NoStep>
  void set_row(std::size_t row, const RowFigures& figures, Step step = {}) noexcept {
    if (row < most_rows) segment_->rows[row].figures.store(figures, step);
  }

  /// Publishes the name of a new policy. @pre one thread at a time; needs no turn
  void set_policy(const char* name) noexcept {
    Text<128> text;
    text.assign(name);
    segment_->policy.store(text);
  }

  /// Publishes how many rows found no room.
  void set_rows_dropped(std::uint64_t count) noexcept {
    segment_->rows_dropped.store(count, std::memory_order_relaxed);
  }

  template <typename Step = NoStep>
  void set_device(const DeviceFigures& figures, Step step = {}) noexcept {
    const auto slot = static_cast<std::size_t>(figures.index + 1);
    if (slot < most_devices) segment_->devices[slot].store(figures, step);
  }

  template <typename Step = NoStep>
  void add_history(HistoryPoint point, Step step = {}) noexcept {
    const std::uint64_t count = segment_->history_count.load(std::memory_order_relaxed);
    point.number = count + 1;
    segment_->history[count % history_length].store(point, step);
    segment_->history_count.store(count + 1, std::memory_order_release);
    step();
  }

  /// Publishes a request for memory. @pre one thread at a time; needs no turn
  template <typename Step = NoStep>
  void set_want(const Want& want, Step step = {}) noexcept {
    segment_->want.store(want, step);
  }

  /// From any thread; needs no turn. Drops and counts an event while another one is written to its
  /// slot.
  template <typename Step = NoStep>
  void event(EventKind kind, std::uint64_t at_step, const char* text, Step step = {}) noexcept {
    Event event;
    event.kind = kind;
    event.step = at_step;
    event.time = monotonic_now();
    event.text.assign(text);
    event.number = segment_->event_count.fetch_add(1, std::memory_order_relaxed) + 1;
    step();
    if (!segment_->events[(event.number - 1) % events_length].try_store(event, step)) {
      segment_->events_dropped.fetch_add(1, std::memory_order_relaxed);
    }
  }

  /// Deletes the segment's file; existing mappings stay valid. May be called twice.
  void remove() noexcept;

  /// In a forked child: unmaps the parent's segment. This object must not be used afterwards.
  void forget() noexcept;

  const Segment& segment() const noexcept { return *segment_; }

 private:
  Writer(Segment* segment, std::string path) : segment_(segment), path_(std::move(path)) {}

  Segment* segment_;
  std::string path_;
  std::atomic<bool> busy_{false};
};

/// This process's identity: ranks from RANK, LOCAL_RANK, WORLD_SIZE, the job from
/// TORCHELASTIC_RUN_ID, MASTER_ADDR and MASTER_PORT.
Identity own_identity(const std::string& policy, const std::string& torch);

}  // namespace cinch::telemetry
