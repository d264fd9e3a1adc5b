// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

/// Marks a scope in which this thread works for Cinch in one of autograd's callbacks. The scope's
/// time counts as spent in Cinch; unpacking inside the scope is not counted again.
class CallbackTime {
 public:
  enum class Purpose : std::uint8_t {
    guard,
    adapting,  ///< looks and trials of an adaptive policy
  };
  explicit CallbackTime(Purpose purpose) noexcept : purpose_(purpose) {}
  CallbackTime(const CallbackTime&) = delete;
  CallbackTime& operator=(const CallbackTime&) = delete;
  ~CallbackTime() {
    here_ = before_;
    const std::uint64_t spent = watch_.nanoseconds();
    stash().statistics().spent(spent);
    if (purpose_ == Purpose::adapting) stash().statistics().adapted(spent);
  }

  static bool here() noexcept { return here_; }

 private:
  static inline thread_local bool here_ = false;
  bool before_ = std::exchange(here_, true);
  Purpose purpose_;
  Stopwatch watch_;
};

}  // namespace cinch::hooks
