// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include <time.h>

namespace cinch::allocator {

/// Lets the other thread of a core run for a moment.
inline void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A mutex whose waiters spin a little before they sleep: what it guards takes tens of nanoseconds,
/// and a sleep costs thousands. Waiters look rarely, about once a microsecond and then less often,
/// which lets the holder's cache lines stay where they are for many turns
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

  /// Whether threads keep each other waiting: from when more than one in 2048 calls of lock() had
  /// to (a wait takes as long as a hundred turns of whoever is not waiting) until fewer have had to
  /// for a long time. @pre the lock is held
  bool busy() const noexcept { return busy_; }

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  static constexpr int least_pauses = 128;
  static constexpr int most_pauses = 4096;
  static constexpr std::uint32_t one_wait = 2048;  // calls without a wait that make up for one
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
  std::uint32_t waits_ = 0;  // guarded by mutex_, as is the next
  bool busy_ = false;
};

/// For what takes a few nanoseconds and is hardly ever wanted twice. Who waits long sleeps between
/// two looks: the holder is not running then. Many may be held at a time.
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
