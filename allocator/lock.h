// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace cinch::allocator {

/// A mutex whose waiters spin a little before they sleep: what it guards takes tens of nanoseconds,
/// and a sleep costs thousands. Waiters look rarely, about once a microsecond and then less often,
/// which lets the holder's cache lines stay where they are for many turns
/// (docs/benchmarks.md, "The allocator's core").
class Lock {
 public:
  void lock() noexcept {
    for (int pauses = least_pauses; pauses <= most_pauses; pauses *= 2) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < pauses; ++i) pause();
    }
    mutex_.lock();
  }
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  static constexpr int least_pauses = 128;
  static constexpr int most_pauses = 4096;

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
};

}  // namespace cinch::allocator
