// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "agent/telemetry/report.h"

namespace cinch::hooks {

/// Records in bounded memory what the stash held over time, and what was decided when. Not
/// thread-safe: the stash's lock guards it.
///
/// An interval covers a fixed number of changes. When there are `most_points` intervals, each two
/// neighbours are merged, and the number doubles. An interval keeps the figures at its moment of
/// most raw bytes, and its least figures, so no peak is lost.
class Timeline {
 public:
  static constexpr std::size_t most_points = 2048;
  static constexpr std::size_t most_events = 4096;

  Timeline();

  /// The stash changed. In bytes; `owned` is what the program owns too.
  void note(std::uint64_t raw, std::uint64_t stored, std::uint64_t owned) {
    if (raw >= now_.raw_bytes) {
      now_.raw_bytes = raw;
      now_.stored_bytes = stored;
      now_.owned_bytes = owned;
    }
    if (raw < now_.least_raw_bytes) now_.least_raw_bytes = raw;
    if (stored < now_.least_stored_bytes) now_.least_stored_bytes = stored;
    if (++changes_ == stride_) close_interval();
  }

  /// Records a decision. @param kind "guard", "choice", "rescue", "policy", "derivation" or
  /// "decomposition"
  void decided(const char* kind, std::string subject, std::string detail) noexcept;

  /// Seconds since construction or restart().
  double seconds() const;

  /// Fills `memory`, `events`, `events_dropped` and `seconds`.
  void fill(telemetry::Report& report) const;

  /// Clears the record and restarts the clock, in a forked child.
  void restart();

 private:
  using Point = telemetry::Report::MemoryPoint;
  using Clock = std::chrono::steady_clock;

  static Point nothing_yet();
  void close_interval();
  void halve();

  Clock::time_point start_;
  std::vector<Point> points_;
  Point now_;                  // the interval under way
  std::uint64_t changes_ = 0;  // in it so far
  std::uint64_t stride_ = 1;   // changes in an interval
  double rss_read_at_ = -1;
  std::uint64_t rss_bytes_ = 0;
  std::deque<telemetry::Report::Event> events_;
  std::uint64_t events_dropped_ = 0;
};

}  // namespace cinch::hooks
