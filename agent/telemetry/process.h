// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace cinch::telemetry {

/// Identifies one process until the next boot: process numbers are reused, but not with the same
/// start time. A number is valid only in its PID namespace.
struct ProcessKey {
  std::uint64_t uid = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t pid_namespace = 0;

  friend bool operator==(const ProcessKey&, const ProcessKey&) = default;
};

/// This process. Parts that /proc does not tell are 0.
ProcessKey own_process();

/// The id of the machine's boot, 36 characters; "" when /proc does not tell.
std::string boot_id();

/// Clock ticks from boot to the start of `pid`; 0 when there is no such process, or it is a zombie.
std::uint64_t start_ticks_of(std::uint64_t pid);

/// The number of the parent of `pid`; 0 as above, or when the parent is in another PID namespace.
std::uint64_t parent_of(std::uint64_t pid);

/// Whether a process lives, as far as this process can tell.
enum class Life : std::uint8_t {
  alive,
  gone,
  elsewhere,  ///< in another PID namespace, or without start ticks: unknown
};
Life life_of(const ProcessKey& process);

/// This process's command line, joined by spaces; may hold any bytes. "" when not known.
std::string command_line();

/// "cinch-UID-PID-START-NAMESPACE".
std::string segment_name(const ProcessKey& process);
/// Nothing for names of another form.
std::optional<ProcessKey> parse_segment_name(std::string_view name);

/// `path` with each "%p" replaced by the process's number.
std::string with_pid(std::string path, std::uint64_t pid);

/// The folder of the segments: $CINCH_TELEMETRY_DIR, or /dev/shm.
std::string segment_directory();

/// CLOCK_MONOTONIC in nanoseconds; no system call.
std::uint64_t monotonic_now() noexcept;

}  // namespace cinch::telemetry
