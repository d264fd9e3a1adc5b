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

/// The state of a run.
enum class RunState : std::uint8_t {
  starting,  ///< its segment is not ready yet
  running,
  gone,     ///< it ended without removing its segment: killed, or os._exit
  stale,    ///< alive, but its figures can't be read: its writer stopped in the middle of a write
  foreign,  ///< of another layout version; `note` says which
  unreadable,  ///< no segment of Cinch's, or damaged
};

/// "running", …
std::string_view word(RunState state) noexcept;

/// The content of one process's segment.
struct Run {
  struct Row {
    std::string op;
    std::string operand;
    std::string codec;
    RowFigures figures;
  };

  ProcessKey process;
  RunState state = RunState::unreadable;
  std::string note;  ///< for people; may be empty
  Identity identity;
  std::optional<LiveFigures> live;  ///< nothing before the first step
  std::vector<DeviceFigures> devices;
  std::optional<Want> want;  ///< the last request for memory
  std::vector<Row> rows;
  std::vector<HistoryPoint> history;  ///< oldest first
  std::vector<Event> events;          ///< oldest first
  std::uint64_t rows_dropped = 0;
  std::uint64_t history_dropped = 0;  ///< points that the ring has overwritten
  std::uint64_t events_dropped = 0;
  std::uint64_t torn = 0;  ///< slots that were being written at each attempt
  std::uint64_t rss = 0;   ///< resident memory now, bytes; 0 when not known
  std::uint64_t peak_rss = 0;
  std::uint64_t read_at = 0;  ///< monotonic_now()
};

/// Reads a mapped segment. Never waits and never trusts the content. The state is `starting`,
/// `running`, `stale`, `foreign` or `unreadable`; does not check whether the process lives.
Run read_segment(std::span<const std::byte> memory);

/// Maps the process's segment read-only, reads it, and checks whether the process lives. Accepts
/// only a regular file that only this user can open.
Run read_run(const std::string& directory, const ProcessKey& process);

/// All runs of this user in `directory`, sorted by job, rank and process number. Deletes the
/// segments of runs that have been gone for more than `keep_gone` seconds or that ended without
/// any figures. Never opens another user's file.
std::vector<Run> read_runs(const std::string& directory, double keep_gone = 600);

/// The job of a run: torchrun's, else the process's number. Runs of one job have the same.
std::string job_of(const Run& run);

}  // namespace cinch::telemetry
