// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include <time.h>

namespace cinch::allocator {

/// CPU hint in spin loops: lets the other hardware thread of the CPU core run for a moment.
inline void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A mutex whose waiters spin before they sleep: critical sections take tens of nanoseconds, a
/// sleep costs thousands. Waiters poll rarely, first about once a microsecond and then less often,
/// so that the guarded cache lines stay with the holder for many turns
/// (docs/benchmarks-allocator.md, "The allocator's core").
class Lock {
 public:
  void lock() noexcept {
    if (mutex_.try_lock()) {
      if (waits_ != 0 && --waits_ == 0) busy_ = false;
      return;
    }
    wait();
    waits_ = std::min(waits_ + one_wait, most_waits);
    if (waits_ >= busy_waits) busy_ = true;
  }
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

  /// Whether threads contend for the lock: true once more than one in 2048 calls of lock() had to
  /// wait, until hardly any has for some 65,000 calls. One wait lasts as long as about a hundred
  /// calls that do not wait. @pre the lock is held
  bool busy() const noexcept { return busy_; }

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  static constexpr int least_pauses = 128;
  static constexpr int most_pauses = 4096;
  static constexpr std::uint32_t one_wait = 2048;  // calls without a wait that offset one wait
  static constexpr std::uint32_t busy_waits = 16 * one_wait;
  static constexpr std::uint32_t most_waits = 32 * one_wait;

  void wait() noexcept {
    for (int pauses = least_pauses; pauses <= most_pauses; pauses *= 2) {
      for (int i = 0; i < pauses; ++i) pause_core();
      if (mutex_.try_lock()) return;
    }
    mutex_.lock();
  }

  std::mutex mutex_;
  std::uint32_t waits_ = 0;  // up with a wait, down without; mutex_ guards both
  bool busy_ = false;
};

/// A spin lock for a few nanoseconds' work with hardly any contention. Long waiters sleep between
/// polls, since the holder is not running then. A thread may hold many at a time.
class BriefLock {
 public:
  void lock() noexcept {
    int looks = 0;
    while (held_.exchange(true, std::memory_order_acquire)) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++looks < most_looks) {
          pause_core();
        } else {
          const timespec time = {.tv_sec = 0, .tv_nsec = 50'000};
          nanosleep(&time, nullptr);
        }
      }
    }
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int most_looks = 1000;
  std::atomic<bool> held_{false};
};

}  // namespace cinch::allocator
