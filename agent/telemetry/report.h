// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::telemetry {

/// The report of one process: the core (hooks/torch) writes it, `cinch` renders it.
///
/// JSON field names equal the member names. Byte counts are exact; seconds are wall time.
struct Report {
  static constexpr int current_version = 1;

  /// Totals over the run for one (op, operand, codec).
  struct Op {
    std::string op;  ///< "" where unknown
    std::string operand;
    std::string codec;               ///< "division", "sign", "kept", "nothing", …
    std::uint64_t count = 0;         ///< storages
    std::uint64_t raw_bytes = 0;     ///< sum over all storages of the run
    std::uint64_t stored_bytes = 0;  ///< likewise
    double encode_seconds = 0;
    double decode_seconds = 0;
    std::uint64_t guard_checks = 0;   ///< storages that the guard compared with their exact values
    std::uint64_t guard_moves = 0;    ///< times the guard raised the precision of some
    double worst_relative_error = 0;  ///< of values, where checked
    double worst_gradient_error = 0;  ///< of the operator's gradients, where checked
  };
  /// Why storages were not compressed; most bytes first. `bytes` sums over storages or saves.
  struct PassedThrough {
    std::string reason;
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };

  /// A CUDA device that this process used. Peaks that the program resets
  /// (torch.cuda.reset_peak_memory_stats) count from the reset.
  struct Device {
    std::int64_t index = 0;
    std::string allocator;  ///< "PyTorch" or "Cinch": whose allocator it is
    std::uint64_t peak_allocated_bytes = 0;
    std::uint64_t peak_reserved_bytes = 0;
    std::uint64_t stash_bytes_at_most = 0;      ///< held by the stash, encoded or kept
    std::uint64_t in_flight_bytes_at_most = 0;  ///< waiting for the side stream to encode them
    std::uint64_t encodes_held_back = 0;  ///< left to the program's stream: too much in flight
    /// Most bytes at once, sources and encodings, whose encoded size the host did not know yet.
    std::uint64_t unsized_bytes_at_most = 0;
    std::uint64_t encodes_put_off = 0;  ///< postponed: too much of unknown size
  };

  /// Totals over the run for one storage of a forward, which training saves again in every step.
  struct Entry {
    std::string module;    ///< "layer1.0.conv1"; "" when it isn't known
    std::string relation;  ///< "own": the operator uses that module's parameter; "after": it is the
                           ///< nearest module before the operator; "" without a module
    std::string op;
    std::string operand;
    std::string codec;        ///< the last one that held it
    std::string type;         ///< "float32"
    std::string shape;        ///< "8x64x56x56"
    std::uint32_t place = 0;  ///< number among entries alike in a forward, from 1; 0: all others
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
  /// An interval of changes to the stash: figures at its most raw bytes, and the lowest in it.
  struct MemoryPoint {
    double seconds = 0;  ///< since Cinch started
    std::uint64_t step = 0;
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t owned_bytes = 0;  ///< saved, but held by the program too
    std::uint64_t least_raw_bytes = 0;
    std::uint64_t least_stored_bytes = 0;
    std::uint64_t rss_bytes = 0;  ///< of the process, read every tenth of a second
  };
  /// A decision while the program ran.
  struct Event {
    double seconds = 0;
    std::uint64_t step = 0;
    /// "guard", "choice" (adaptive policy), "rescue", "policy" (a new one), "derivation" or
    /// "decomposition"
    std::string kind;
    std::string subject;
    std::string detail;
  };

  /// What one policy would have held at the peak of one step, measured by a dry run. Seconds are
  /// those of the trial, in the program's threads.
  struct DryRun {
    std::string policy;
    bool measured = false;  ///< false: the program ended before its second step did
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t device_bytes = 0;  ///< part of raw_bytes, on CUDA devices
    double ratio = 0;                ///< raw / stored; 0 when nothing was stored
    double encode_seconds = 0;
    double decode_seconds = 0;
    double worst_relative_error = 0;  ///< largest in `ops`
    double worst_gradient_error = 0;
    std::string message;  ///< from the policy, such as: the budget can't be met
    std::vector<PassedThrough> passed_through;
    std::vector<Op> ops;  ///< of the step
  };

  /// How the policy fares in this program, measured for `cinch advise policy` (docs/advise.md).
  /// Errors and noise are squared sizes relative to that of the exact gradients.
  struct Appraisal {
    bool measured = false;           ///< false: the program ended before the last step did
    std::uint64_t steps = 0;         ///< that began
    std::uint64_t raw_bytes = 0;     ///< of the stash at the peak of the timed steps
    std::uint64_t stored_bytes = 0;  ///< likewise
    double seconds = 0;              ///< of the timed steps, without an adaptive policy's looks
    double seconds_in_cinch = 0;     ///< part of it
    double gradient_error = 0;       ///< of all parameters' gradients together
    double gradient_noise = 0;       ///< half of what they change from one backward to the next
    double error_by_weight = 0;      ///< mean over the weights, each relative to its own gradient
    double noise_by_weight = 0;      ///< likewise
    std::uint64_t gradients = 0;     ///< elements of the parameters' gradients
    /// Of these, how many get errors that are not in the figures: they come through an operator
    /// that can't be run twice.
    std::uint64_t untraced_gradients = 0;
  };

  int version = current_version;
  bool active = false;
  std::string inactive_reason;  ///< "" when active
  std::string policy;           ///< preset name or path
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;    ///< see ProcessKey
  std::uint64_t pid_namespace = 0;  ///< see ProcessKey
  std::string command;              ///< the process's command line, arguments joined by spaces
  std::string torch_version;
  std::uint64_t steps = 0;  ///< optimizer steps seen
  std::string optimizer;    ///< class of the first that stepped, "AdamW"; "" if none did
  std::uint64_t raw_bytes_at_peak = 0;
  std::uint64_t stored_bytes_at_peak = 0;
  std::uint64_t held_elsewhere_bytes_at_peak = 0;  ///< saved, but the program itself holds it
  double ratio = 0;  ///< raw / stored at peak; 0 when nothing was stored
  std::uint64_t stash_bytes_at_exit = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t rss_bytes_at_start = 0;  ///< when the first tensor was saved; 0 if none was
  double seconds_in_cinch = 0;
  double seconds_adapting = 0;       ///< part of it: an adaptive policy's looks, trials, decisions
  std::uint64_t rescues = 0;         ///< times memory ran out and the stash freed some
  std::uint64_t rescues_early = 0;   ///< rescues that encoded early
  std::uint64_t rescues_harder = 0;  ///< rescues that encoded held entries in fewer bits
  std::uint64_t rescues_by_offload = 0;        ///< rescues that moved to the host's memory
  std::uint64_t rescued_bytes = 0;             ///< freed by encoding early
  std::uint64_t rescued_harder_bytes = 0;      ///< freed by encoding in fewer bits
  std::uint64_t rescued_by_offload_bytes = 0;  ///< freed by moving to the host's memory
  std::uint64_t given_by_others_bytes = 0;     ///< by other processes on the device, on request
  std::uint64_t offloads = 0;                  ///< storages moved from a CUDA device to the host
  std::uint64_t offloaded_bytes = 0;           ///< moved so, in the form held; sum over the run
  std::uint64_t fetches = 0;                   ///< copies back to the device
  std::uint64_t fetches_ahead = 0;             ///< fetches made before backward asked
  std::uint64_t size_waits = 0;                ///< times that the host waited for an encoded size
  /// On the host at the peak; not part of stored_bytes_at_peak.
  std::uint64_t offloaded_bytes_at_peak = 0;
  std::uint64_t peak_pinned_bytes = 0;      ///< most page-locked memory in use for offloading
  std::uint64_t reserved_pinned_bytes = 0;  ///< page-locked memory taken from the system for it
  std::vector<Device> devices;
  std::vector<PassedThrough> passed_through;
  std::vector<Op> ops;
  double seconds = 0;  ///< from Cinch's start to this report
  std::vector<MemoryPoint> memory;
  std::vector<Event> events;         ///< oldest first; only the newest are kept
  std::uint64_t events_dropped = 0;  ///< older events that were not kept
  std::vector<Entry> entries;
  std::vector<DryRun> dry_run;       ///< in the order in which they were asked for
  std::vector<Appraisal> appraisal;  ///< of `cinch advise policy` only: one
  // Of dry runs only, for `cinch advise`; 0 when not known.
  std::uint64_t plain_rss_bytes = 0;  ///< most resident memory of the first step
  std::uint64_t parameter_bytes = 0;  ///< of leaves that take gradients

  /// Fields that a file of an older Cinch did not have. Filled by from_json, never written.
  std::vector<std::string> missing;
};

/// One JSON object, indented, ending in a newline.
std::string to_json(const Report& report);

/// Parses the text of to_json. For text that isn't a report or is of another version, returns
/// nothing and sets `error` (one line: what was found, what was expected).
std::optional<Report> from_json(std::string_view text, std::string& error);

/// Writes the report's JSON by files::write_file. Returns "" or one line that says what failed.
std::string write_report(const Report& report, const std::string& path);

}  // namespace cinch::telemetry
