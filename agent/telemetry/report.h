// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::telemetry {

/// What a process leaves behind when it ends: written by the stash, rendered by `cinch`.
///
/// JSON field names equal the member names. Byte counts are exact; seconds are wall time.
struct Report {
  static constexpr int current_version = 1;

  /// One (op, operand, codec) with totals over the run.
  struct Op {
    std::string op;  ///< "" where unknown
    std::string operand;
    std::string codec;               ///< "division", "sign", "kept", "nothing", …
    std::uint64_t count = 0;         ///< storages
    std::uint64_t raw_bytes = 0;     ///< sum over all storages of the run
    std::uint64_t stored_bytes = 0;  ///< likewise
    double encode_seconds = 0;
    double decode_seconds = 0;
    std::uint64_t guard_checks = 0;   ///< storages whose exact values the guard compared
    std::uint64_t guard_moves = 0;    ///< times it had some held more precisely
    double worst_relative_error = 0;  ///< of values, where checked
    double worst_gradient_error = 0;  ///< of the operator's gradients, where checked
  };
  /// What was not compressed, most bytes first. `bytes` sums over the run's storages or saves.
  struct PassedThrough {
    std::string reason;
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };

  /// Memory of a CUDA device that this process used, at most at any time. What the program resets
  /// (torch.cuda.reset_peak_memory_stats) counts from there.
  struct Device {
    std::int64_t index = 0;
    std::string allocator;  ///< whose: "PyTorch" or "Cinch"
    std::uint64_t peak_allocated_bytes = 0;
    std::uint64_t peak_reserved_bytes = 0;
    std::uint64_t stash_bytes_at_most = 0;      ///< held by the stash, encoded or kept
    std::uint64_t in_flight_bytes_at_most = 0;  ///< that waited for the side stream to be encoded
    std::uint64_t encodes_held_back = 0;  ///< not given to the side stream for that bound's sake
    /// Held at once, with their sources, of what was encoded to a size not known yet.
    std::uint64_t unsized_bytes_at_most = 0;
    std::uint64_t encodes_put_off = 0;  ///< for that bound's sake
  };

  /// One storage of a forward, which training saves again in every step; totals over the run.
  struct Entry {
    std::string module;    ///< "layer1.0.conv1"; "" where it isn't known
    std::string relation;  ///< "own": that module's parameter is the operator's; "after": it is the
                           ///< nearest parameter before it; "" without a module
    std::string op;
    std::string operand;
    std::string codec;        ///< that held it last
    std::string type;         ///< "float32"
    std::string shape;        ///< "8x64x56x56"
    std::uint32_t place = 0;  ///< number among its likes in a forward, from 1; 0 for all the rest
    std::uint64_t count = 0;
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    double bits_per_element = 0;  ///< 0 where types are mixed
    double encode_seconds = 0;
    double decode_seconds = 0;
    std::uint64_t guard_checks = 0;
    double worst_relative_error = 0;
    double worst_gradient_error = 0;
  };
  /// The highest moment of an interval of changes to the stash, and what was lowest in it.
  struct MemoryPoint {
    double seconds = 0;  ///< since Cinch started
    std::uint64_t step = 0;
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t owned_bytes = 0;  ///< saved, but (also) held by the program
    std::uint64_t least_raw_bytes = 0;
    std::uint64_t least_stored_bytes = 0;
    std::uint64_t rss_bytes = 0;  ///< of the process, read every tenth of a second
  };
  /// Something that was decided while the program ran.
  struct Event {
    double seconds = 0;
    std::uint64_t step = 0;
    std::string
        kind;  ///< "guard", "choice" (of an adaptive policy), "rescue", "policy" (another one)
    std::string subject;
    std::string detail;
  };

  /// What a policy would have held, found out in a dry run: of one step, at its peak. Seconds are
  /// those of the trial, in the program's threads.
  struct DryRun {
    std::string policy;
    bool measured = false;  ///< false: the program ended before its second step did
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t device_bytes = 0;  ///< of the raw ones, on CUDA devices
    double ratio = 0;                ///< raw / stored; 0 when nothing was stored
    double encode_seconds = 0;
    double decode_seconds = 0;
    double worst_relative_error = 0;  ///< the largest of the rows'
    double worst_gradient_error = 0;
    std::string message;  ///< what the policy has to say, such as a budget that can't be met
    std::vector<PassedThrough> passed_through;
    std::vector<Op> ops;  ///< of the step
  };

  int version = current_version;
  bool active = false;
  std::string inactive_reason;  ///< "" when active
  std::string policy;           ///< preset name or path
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;    ///< of the process, as ProcessKey has it
  std::uint64_t pid_namespace = 0;  ///< likewise
  std::string command;              ///< the process's command line, arguments joined by spaces
  std::string torch_version;
  std::uint64_t steps = 0;  ///< optimizer steps seen
  std::string optimizer;    ///< the first one's class, "AdamW"; "" before its first step
  std::uint64_t raw_bytes_at_peak = 0;
  std::uint64_t stored_bytes_at_peak = 0;
  std::uint64_t held_elsewhere_bytes_at_peak = 0;  ///< saved, but the program itself holds it
  double ratio = 0;  ///< raw / stored at peak; 0 when nothing was stored
  std::uint64_t stash_bytes_at_exit = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t rss_bytes_at_start = 0;  ///< when the first tensor was saved; 0 if none was
  double seconds_in_cinch = 0;
  double seconds_adapting = 0;       ///< of it: an adaptive policy's looks, trials and decisions
  std::uint64_t rescues = 0;         ///< times memory ran out and the stash freed some
  std::uint64_t rescues_early = 0;   ///< of them, those that encoded early
  std::uint64_t rescues_harder = 0;  ///< that encoded in fewer bits what was held already
  std::uint64_t rescues_by_offload = 0;        ///< that moved to the host's memory
  std::uint64_t rescued_bytes = 0;             ///< by encoding early, together
  std::uint64_t rescued_harder_bytes = 0;      ///< in fewer bits
  std::uint64_t rescued_by_offload_bytes = 0;  ///< and by moving to the host's memory
  std::uint64_t given_by_others_bytes = 0;  ///< by other processes on the device, when asked for it
  std::uint64_t offloads = 0;               ///< storages moved from a CUDA device to the host
  std::uint64_t offloaded_bytes = 0;        ///< of them, as they were held; sum over the run
  std::uint64_t fetches = 0;                ///< copies back
  std::uint64_t fetches_ahead = 0;          ///< of them, before backward asked
  std::uint64_t size_waits = 0;  ///< times that the host waited for what encoding had come to
  /// What was on the host at the peak, and is not among stored_bytes_at_peak.
  std::uint64_t offloaded_bytes_at_peak = 0;
  std::uint64_t peak_pinned_bytes = 0;      ///< page-locked memory in use for that at most
  std::uint64_t reserved_pinned_bytes = 0;  ///< and what was taken from the system
  std::vector<Device> devices;
  std::vector<PassedThrough> passed_through;
  std::vector<Op> ops;
  double seconds = 0;  ///< from Cinch's start to this report
  std::vector<MemoryPoint> memory;
  std::vector<Event> events;         ///< oldest first; the newest of too many
  std::uint64_t events_dropped = 0;  ///< older ones
  std::vector<Entry> entries;
  std::vector<DryRun> dry_run;  ///< in the order in which they were asked for
  // Of dry runs only, for advice; 0 where not known.
  std::uint64_t plain_rss_bytes = 0;  ///< the most that the process had in its first step
  std::uint64_t parameter_bytes = 0;  ///< of leaves that take gradients

  /// Fields that a file of an older Cinch did not have. Filled by from_json, never written.
  std::vector<std::string> missing;
};

/// One JSON object, indented, ending in a newline.
std::string to_json(const Report& report);

/// Parses what to_json wrote. Returns nothing and sets `error` (one line: what was found, what was
/// expected) for text that isn't a report or is of a newer version.
std::optional<Report> from_json(std::string_view text, std::string& error);

/// Writes the report's JSON, as files::write_file does. Returns "" or one line that says what
/// failed.
std::string write_report(const Report& report, const std::string& path);

}  // namespace cinch::telemetry
