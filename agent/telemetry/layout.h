// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/telemetry/slot.h"

/// The content of a process's telemetry segment. All numbers are in the machine's byte order: a
/// segment never leaves the machine. Times are CLOCK_MONOTONIC nanoseconds unless named otherwise.
///
/// Every change here needs a new `layout_version`: readers accept only their own version. The
/// first five words, which tell a reader the version, never change.
namespace cinch::telemetry {

inline constexpr std::uint64_t segment_magic = 0x474553'48434e49'43;  // "CINCHSEG" in memory
inline constexpr std::uint64_t layout_version = 3;

inline constexpr std::size_t most_rows = 128;    ///< further rows are only counted
inline constexpr std::size_t most_devices = 17;  ///< the host, and 16 CUDA devices
inline constexpr std::size_t history_length = 512;
inline constexpr std::size_t events_length = 64;

/// The whole process at its last boundary, where a backward began. Bytes unless named otherwise.
struct LiveFigures {
  std::uint64_t heartbeat = 0;   ///< when this was written
  std::uint64_t steps = 0;       ///< optimizer steps; backwards if no optimizer steps
  std::uint64_t boundaries = 0;  ///< times a backward began
  std::uint64_t step_nanoseconds = 0;
  std::uint64_t raw = 0;  ///< at the boundary
  std::uint64_t stored = 0;
  std::uint64_t raw_at_peak = 0;  ///< docs/design.md, "Raw and stored bytes"
  std::uint64_t stored_at_peak = 0;
  std::uint64_t held_elsewhere_at_peak = 0;
  std::uint64_t offloaded = 0;        ///< in the host's memory for CUDA devices, at the boundary
  std::uint64_t pinned = 0;           ///< page-locked memory in use for that
  std::uint64_t pinned_reserved = 0;  ///< page-locked memory taken from the system for that
  std::uint64_t nanoseconds_in_cinch = 0;  ///< since the start
  std::uint64_t guard_checks = 0;
  std::uint64_t guard_moves = 0;
  std::uint64_t rescues = 0;
  std::uint64_t rescued = 0;             ///< freed by encoding early or in fewer bits
  std::uint64_t rescued_by_offload = 0;  ///< freed by moving to the host's memory
  std::uint64_t given_by_others = 0;     ///< given back by other processes on request
  std::uint64_t decisions = 0;  ///< layers whose choice an adaptive policy changed, summed up
};

/// Totals since the start for one (op, operand, codec), as in Report::Op.
struct RowFigures {
  std::uint64_t count = 0;
  std::uint64_t raw = 0;
  std::uint64_t stored = 0;
  std::uint64_t encode_nanoseconds = 0;
  std::uint64_t decode_nanoseconds = 0;
  std::uint64_t guard_checks = 0;
  std::uint64_t guard_moves = 0;
  double worst_relative_error = 0;
  double worst_gradient_error = 0;
};

/// A device where Cinch's allocator is installed.
struct DeviceFigures {
  std::int64_t index = -1;  ///< -1: the host
  std::uint64_t allocated = 0;
  std::uint64_t peak_allocated = 0;
  std::uint64_t reserved = 0;
  std::uint64_t peak_reserved = 0;
  Text<48> name = {};  ///< "GPU-" and its UUID: the same in every process; "" for the host
};

/// A request for memory: the process has run out. `cinch agent` reads it and asks other processes.
struct Want {
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t time = 0;
  std::uint64_t bytes = 0;
  Text<48> device = {};  ///< as DeviceFigures::name
};

/// One step.
struct HistoryPoint {
  std::uint64_t number = 0;  ///< from 1; tells whether the ring has reused the slot
  std::uint64_t time = 0;
  std::uint64_t step = 0;
  std::uint64_t step_nanoseconds = 0;
  std::uint64_t raw = 0;  ///< the most at a boundary of this step
  std::uint64_t stored = 0;
  std::uint64_t nanoseconds_in_cinch = 0;  ///< since the start
  std::uint64_t allocated = 0;             ///< all devices of one kind: CUDA where used, else host
  std::uint64_t reserved = 0;
};

enum class EventKind : std::uint64_t {
  guard = 1,     ///< a class of entries is held more precisely from now on
  decision = 2,  ///< an adaptive policy changed its choices
  rescue = 3,    ///< memory had run out, and the stash freed some
  message = 4,   ///< any other text for people
};

struct Event {
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t time = 0;
  std::uint64_t step = 0;
  EventKind kind = EventKind::message;
  Text<192> text;
};

/// Written before `rows_used` counts the row, then never changed.
struct RowKey {
  Text<64> op;
  Text<24> operand;
  Text<40> codec;
};

/// Who the process is. Written before the ready word, then never changed.
struct Identity {
  std::uint64_t pid = 0;
  std::uint64_t start_ticks = 0;    ///< clock ticks from boot to the process's start
  std::uint64_t pid_namespace = 0;  ///< inode; 0 when not known
  std::uint64_t uid = 0;
  std::uint64_t created_realtime = 0;  ///< nanoseconds since 1970
  std::uint64_t created = 0;
  std::int64_t rank = -1;  ///< -1: none
  std::int64_t local_rank = -1;
  std::int64_t world = -1;
  Text<40> boot_id;
  Text<64> job;      ///< TORCHELASTIC_RUN_ID, or ""
  Text<64> master;   ///< MASTER_ADDR:MASTER_PORT, or ""
  Text<128> policy;  ///< at the start
  Text<16> torch;
  Text<256> command;
};

struct Segment {
  // These five never change.
  Word magic;
  Word version;
  Word total_bytes;
  Word header_bytes;  ///< offset of `policy`
  Word ready;         ///< 1, stored last

  Identity identity;

  Word published;  ///< number of publications; the last complete one is live[published % 2]
  Word rows_used;
  Word rows_dropped;  ///< rows that found no room
  Word history_count;
  Word event_count;
  Word events_dropped;  ///< lost because another thread was writing to their slot

  Slot<Text<128>> policy;  ///< the policy in force; not written until it changes
  Slot<LiveFigures> live[2];
  Slot<DeviceFigures> devices[most_devices];
  struct Row {
    RowKey key;
    Slot<RowFigures> figures;
  } rows[most_rows];
  Slot<HistoryPoint> history[history_length];
  Slot<Event> events[events_length];
  Slot<Want> want;  ///< the last one
};
static_assert(std::is_standard_layout_v<Segment>);

}  // namespace cinch::telemetry
