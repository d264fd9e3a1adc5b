// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include <pthread.h>

#include "agent/cli/progress.h"

namespace cinch::cli {

/// A pseudo-terminal for a program's output, which is printed on our terminal above the progress
/// line. The program keeps its input and its controlling terminal.
class Relay {
 public:
  /// Null when `progress` has no terminal, or a pseudo-terminal or thread can't be made: then the
  /// program has to write to our terminal. `progress` must outlive the relay.
  static std::unique_ptr<Relay> open(Progress& progress);
  /// Prints the remaining output. @pre the program has ended
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// The descriptor that the program has to write to.
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
