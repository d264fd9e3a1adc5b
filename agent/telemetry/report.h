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
    std::uint64_t stash_bytes_at_most = 0;  ///< held by the stash, encoded or kept
  };

  int version = current_version;
  bool active = false;
  std::string inactive_reason;  ///< "" when active
  std::string policy;           ///< preset name or path
  std::int64_t pid = 0;
  std::string command;  ///< the process's command line, arguments joined by spaces
  std::string torch_version;
  std::uint64_t steps = 0;  ///< optimizer steps seen
  std::uint64_t raw_bytes_at_peak = 0;
  std::uint64_t stored_bytes_at_peak = 0;
  std::uint64_t held_elsewhere_bytes_at_peak = 0;  ///< saved, but the program itself holds it
  double ratio = 0;  ///< raw / stored at peak; 0 when nothing was stored
  std::uint64_t stash_bytes_at_exit = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t rss_bytes_at_start = 0;  ///< when the first tensor was saved; 0 if none was
  double seconds_in_cinch = 0;
  std::uint64_t rescues = 0;                   ///< times memory ran out and the stash freed some
  std::uint64_t rescued_bytes = 0;             ///< by encoding early, together
  std::uint64_t rescued_by_offload_bytes = 0;  ///< and by moving to the host's memory
  std::uint64_t offloads = 0;                  ///< storages moved from a CUDA device to the host
  std::uint64_t offloaded_bytes = 0;           ///< of them, as they were held; sum over the run
  std::uint64_t fetches = 0;                   ///< copies back
  std::uint64_t fetches_ahead = 0;             ///< of them, before backward asked
  /// What was on the host at the peak, and is not among stored_bytes_at_peak.
  std::uint64_t offloaded_bytes_at_peak = 0;
  std::uint64_t peak_pinned_bytes = 0;      ///< page-locked memory in use for that at most
  std::uint64_t reserved_pinned_bytes = 0;  ///< and what was taken from the system
  std::vector<Device> devices;
  std::vector<PassedThrough> passed_through;
  std::vector<Op> ops;
};

/// One JSON object, indented, ending in a newline.
std::string to_json(const Report& report);

/// Parses what to_json wrote. Returns nothing and sets `error` (one line: what was found, what was
/// expected) for text that isn't a report or is of a newer version.
std::optional<Report> from_json(std::string_view text, std::string& error);

/// Replaces `path` atomically (a temporary file beside it, then rename). Returns "" or one line
/// that says what failed.
std::string write_report(const Report& report, const std::string& path);

}  // namespace cinch::telemetry
