// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/telemetry/layout.h"
#include "agent/telemetry/process.h"

namespace cinch::telemetry {

/// How a run is.
enum class RunState : std::uint8_t {
  starting,  ///< its segment is not ready yet
  running,
  gone,     ///< it ended without taking leave: killed, or os._exit
  stale,    ///< alive, but nothing could be read: its writer stands still in the middle of a write
  foreign,  ///< of another layout version; `note` says which
  unreadable,  ///< no segment of Cinch's, or damaged
};

/// "running", …
std::string_view word(RunState state) noexcept;

/// What was read of one process.
struct Run {
  struct Row {
    std::string op;
    std::string operand;
    std::string codec;
    RowFigures figures;
  };

  ProcessKey process;
  RunState state = RunState::unreadable;
  std::string note;  ///< for people, where there is something to say
  Identity identity;
  std::optional<LiveFigures> live;  ///< nothing before the first step
  std::vector<DeviceFigures> devices;
  std::optional<Want> want;  ///< of memory, the last one
  std::vector<Row> rows;
  std::vector<HistoryPoint> history;  ///< oldest first
  std::vector<Event> events;          ///< oldest first
  std::uint64_t rows_dropped = 0;
  std::uint64_t history_dropped = 0;  ///< points that the ring has moved past
  std::uint64_t events_dropped = 0;
  std::uint64_t torn = 0;  ///< slots that were being written at each look
  std::uint64_t rss = 0;   ///< of the process now, bytes; 0 when not known
  std::uint64_t peak_rss = 0;
  std::uint64_t read_at = 0;  ///< monotonic_now()
};

/// Reads a segment that is mapped: never waits, never trusts what it finds. The state is
/// `starting`, `running`, `stale`, `foreign` or `unreadable`; whether the process lives is not
/// looked at.
Run read_segment(std::span<const std::byte> memory);

/// Maps the segment of that name read-only, reads it, and looks after its process. Only a regular
/// file of this user's, mode 0600, is opened.
Run read_run(const std::string& directory, const ProcessKey& process);

/// All runs of this user in `directory`, by job, rank and number. Runs of this user that are gone
/// for longer than `keep_gone` seconds, and those that never became ready, are removed; nobody
/// else's file is opened or touched.
std::vector<Run> read_runs(const std::string& directory, double keep_gone = 600);

/// The runs that belong together have the same: torchrun's job, else the process.
std::string job_of(const Run& run);

}  // namespace cinch::telemetry
