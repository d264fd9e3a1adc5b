// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include <pthread.h>

#include "agent/cli/progress.h"

namespace cinch::cli {

/// A terminal for a program's output, which reaches ours above the progress line. The program's
/// input, and the terminal that its signals come from, stay what they are.
class Relay {
 public:
  /// Null where `progress` has no terminal, or none more is to be had: the program writes to ours.
  static std::unique_ptr<Relay> open(Progress& progress);
  /// Passes on what is there. The program has ended.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// What the program shall write to.
  int file() const noexcept { return slave_; }

 private:
  Relay(Progress& progress, int master, int slave)
      : progress_(progress), master_(master), slave_(slave) {}

  static void* run(void* self);
  void loop();

  Progress& progress_;
  const int master_;
  const int slave_;
  std::atomic<bool> ending_{false};
  pthread_t thread_{};
};

}  // namespace cinch::cli
