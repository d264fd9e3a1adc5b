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

/// Cinch's thread that encodes and decodes when the policy's stream is "side". Starts with the
/// first job and does jobs in order. Blocks all signals; needs neither the interpreter nor
/// PyTorch's thread pool. The destructor ends it. Thread-safe.
class SideThread {
 public:
  struct Job {
    enum class Kind : std::uint8_t { settle, decode };
    Entry* entry = nullptr;
    Kind kind = Kind::settle;
    codecs::Reads reads = codecs::Reads::values;  ///< what to decode
    std::size_t bytes = 0;                        ///< held until the job is done
  };
  using Work = void (*)(void* context, const Job& job) noexcept;

  SideThread(Work work, void* context) : work_(work), context_(context) {}
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread() { stop(); }

  /// Queues `job`, after waiting until the other jobs' bytes are at most `most_waiting`.
  /// @return false when there is no thread: the caller must do the job itself
  bool submit(const Job& job, std::size_t most_waiting);

  /// Waits until the settling of `entry` is done.
  /// @return false when no thread will do it: the caller must take_orphans()
  bool wait_for(const Entry& entry);

  /// Takes the jobs that no thread will do any more: those in the queue when this process was
  /// forked. The caller must do them.
  std::deque<Job> take_orphans();

  /// Ends the thread after the jobs in its queue. submit() then refuses all jobs.
  void stop() noexcept;

  /// Call in a forked child, where the thread does not exist. @pre mutex() is not held
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
  const Entry* at_work_ = nullptr;  ///< the entry being settled
  std::size_t waiting_bytes_ = 0;
  State state_ = State::not_started;
  bool stopping_ = false;
  pthread_t thread_{};
};

}  // namespace cinch::hooks
