// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/telemetry/slot.h"

/// Sleeping until another process changes a word of shared memory.
namespace cinch::telemetry {

/// The low half of a word, which is what the kernel compares.
inline std::uint32_t* futex_of(Word& word) noexcept {
  auto* halves = reinterpret_cast<std::uint32_t*>(&word);
  return halves + (std::endian::native == std::endian::little ? 0 : 1);
}

/// Sleeps while the word's low half is that of `seen`, until `wake` or a signal, at most
/// `nanoseconds` (0: no limit). May return early: the caller must read the word again.
inline void sleep_on(Word& word, std::uint64_t seen, std::uint64_t nanoseconds) noexcept {
  const timespec time = {static_cast<std::time_t>(nanoseconds / 1'000'000'000u),
                         static_cast<long>(nanoseconds % 1'000'000'000u)};
  const int before = errno;
  syscall(SYS_futex, futex_of(word), FUTEX_WAIT, static_cast<std::uint32_t>(seen),
          nanoseconds == 0 ? nullptr : &time, nullptr, 0);
  errno = before;
}

/// Wakes all threads, of all processes, that sleep on the word.
inline void wake(Word& word) noexcept {
  const int before = errno;
  syscall(SYS_futex, futex_of(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  errno = before;
}

/// Increments the word and wakes all that sleep on it. Returns the new value.
inline std::uint64_t advance(Word& word) noexcept {
  const std::uint64_t now = word.fetch_add(1, std::memory_order_release) + 1;
  wake(word);
  return now;
}

}  // namespace cinch::telemetry
