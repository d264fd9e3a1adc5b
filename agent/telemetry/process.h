// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace cinch::telemetry {

/// One process for as long as the machine is up: numbers of processes are used again, together with
/// the time of the start they are not. A number means something in its namespace only.
struct ProcessKey {
  std::uint64_t uid = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t pid_namespace = 0;

  friend bool operator==(const ProcessKey&, const ProcessKey&) = default;
};

/// This process. Parts that /proc does not tell are 0.
ProcessKey own_process();

/// The machine's boot, 36 characters; "" when /proc does not tell.
std::string boot_id();

/// Clock ticks from boot to the start of `pid`; 0 when there is no such process.
std::uint64_t start_ticks_of(std::uint64_t pid);

/// The number of its parent; 0 when there is no such process, or the parent is of another
/// namespace.
std::uint64_t parent_of(std::uint64_t pid);

/// What can be known of a process from here.
enum class Life : std::uint8_t {
  alive,
  gone,
  elsewhere,  ///< in another namespace of processes: not to be told from here
};
Life life_of(const ProcessKey& process);

/// This process's command line, words apart by spaces; may hold any bytes. "" when not known.
std::string command_line();

/// "cinch-UID-PID-START-NAMESPACE".
std::string segment_name(const ProcessKey& process);
/// Nothing for names of another form.
std::optional<ProcessKey> parse_segment_name(std::string_view name);

/// `path` with each "%p" replaced by the process's number.
std::string with_pid(std::string path, std::uint64_t pid);

/// Where segments lie: $CINCH_TELEMETRY_DIR, or /dev/shm.
std::string segment_directory();

/// CLOCK_MONOTONIC in nanoseconds; no system call.
std::uint64_t monotonic_now() noexcept;

}  // namespace cinch::telemetry
