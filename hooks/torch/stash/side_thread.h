// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include <pthread.h>

#include "codecs/codec.h"

namespace cinch::hooks {

struct Entry;

/// The thread of Cinch's that encodes and decodes when the policy's stream is "side". It works
/// through its jobs in order, blocks all signals, needs neither the interpreter nor PyTorch's
/// thread pool, and starts with the first job. Never destroyed while it runs. Thread-safe.
class SideThread {
 public:
  struct Job {
    enum class Kind : std::uint8_t { settle, decode };
    Entry* entry = nullptr;
    Kind kind = Kind::settle;
    codecs::Reads reads = codecs::Reads::values;  ///< of a decoding
    std::size_t bytes = 0;                        ///< that wait for the job
  };
  using Work = void (*)(void* context, const Job& job) noexcept;

  SideThread(Work work, void* context) : work_(work), context_(context) {}
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread() { stop(); }

  /// Takes `job`, first waiting until no more than `most_waiting` bytes wait besides it.
  /// @return false when there is no thread: the caller does the work itself
  bool submit(const Job& job, std::size_t most_waiting);

  /// Waits until the settling of `entry` is done.
  /// @return false when no thread will do it: the caller does the work itself
  bool wait_for(const Entry& entry);

  /// Jobs that no thread will do any more: those that were waiting when this process was forked, or
  /// when the thread was stopped. They are the caller's to do.
  std::deque<Job> take_orphans();

  /// Ends the thread after the job that it is at. No job is taken afterwards.
  void stop() noexcept;

  /// In a forked child, which has no such thread. @pre mutex() is not held
  void begin_in_child();

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  enum class State : std::uint8_t { not_started, running, ended };

  static void* run(void* self);
  bool start();
  void loop();

  Work work_;
  void* context_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable done_;
  std::deque<Job> jobs_;
  const Entry* at_work_ = nullptr;  ///< whose settling runs
  std::size_t waiting_bytes_ = 0;
  State state_ = State::not_started;
  bool stopping_ = false;
  pthread_t thread_{};
};

}  // namespace cinch::hooks
