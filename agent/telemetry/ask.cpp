// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/ask.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/file.h>
#include <unistd.h>

#include "agent/telemetry/control_view.h"

namespace cinch::telemetry {
namespace {

using Outcome = Reply::Outcome;

// The moment `patience` seconds after construction.
class Deadline {
 public:
  explicit Deadline(double patience)
      : end_(static_cast<double>(monotonic_now()) * 1e-9 + std::max(patience, 0.0)) {}
  // Sleeps 10 ms; false after the deadline.
  bool wait() const {
    if (static_cast<double>(monotonic_now()) * 1e-9 >= end_) return false;
    usleep(10'000);
    return true;
  }

 private:
  const double end_;
};

std::uint64_t phase_of(std::uint64_t state) {
  return state & 3;
}

Reply ask_in(ControlBlock& block, const ProcessKey& process, Command command,
             std::string_view argument, const Deadline& deadline) {
  std::uint64_t state = block.state.load(std::memory_order_acquire);
  // A request that nobody took is left from an asker that died: withdraw it.
  if (phase_of(state) == ControlBlock::asked) {
    block.state.compare_exchange_strong(state, state - ControlBlock::asked,
                                        std::memory_order_acquire);
  }
  while (phase_of(state = block.state.load(std::memory_order_acquire)) == ControlBlock::taken) {
    if (life_of(process) == Life::gone) return {Outcome::unreachable, "the process ended"};
    if (!deadline.wait()) {
      return {Outcome::withdrawn, "the process has yet to carry out what it was asked before"};
    }
  }
  const std::uint64_t number = (state >> 2) + 1;
  std::memcpy(block.argument, argument.data(), argument.size());
  block.argument_bytes.store(argument.size(), std::memory_order_relaxed);
  block.command.store(static_cast<std::uint64_t>(command), std::memory_order_relaxed);
  const std::uint64_t asked = number << 2 | ControlBlock::asked;
  block.state.store(asked, std::memory_order_release);
  while ((state = block.state.load(std::memory_order_acquire)) !=
         (number << 2 | ControlBlock::answered)) {
    if (life_of(process) == Life::gone) return {Outcome::unreachable, "the process ended"};
    if (deadline.wait()) continue;
    std::uint64_t unseen = asked;
    if (block.state.compare_exchange_strong(unseen, number << 2 | ControlBlock::idle,
                                            std::memory_order_acquire)) {
      return {Outcome::withdrawn, "no step began or ended in time: nothing is changed"};
    }
    if (phase_of(unseen) != ControlBlock::answered) {
      return {Outcome::waiting,
              "taken note of, but tensors saved before are still alive: it will be done when they "
              "are gone"};
    }
  }
  const bool done = block.done.load(std::memory_order_relaxed) == 1;
  return {done ? Outcome::done : Outcome::refused, block.answer.str()};
}

}  // namespace

std::string_view word(Reply::Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::refused:
      return "refused";
    case Outcome::withdrawn:
      return "withdrawn";
    case Outcome::waiting:
      return "waiting";
    case Outcome::unreachable:
      break;
  }
  return "unreachable";
}

Reply ask(const std::string& directory, const ProcessKey& process, Command command,
          std::string_view argument, double patience) {
  const Deadline deadline(patience);
  if (argument.size() > ControlBlock::most_argument_bytes) {
    return {Outcome::refused, "found a policy of " + std::to_string(argument.size()) +
                                  " bytes, expected at most " +
                                  std::to_string(ControlBlock::most_argument_bytes)};
  }
  std::string why;
  const auto view = ControlView::open(directory, process, why);
  if (view == nullptr) return {Outcome::unreachable, why};
  // One asker at a time. The lock ends with the descriptor, also when the asker is killed.
  while (flock(view->file(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) {
      return {Outcome::unreachable, "its control segment: " + std::string(strerror(errno))};
    }
    if (!deadline.wait()) return {Outcome::withdrawn, "somebody else is asking it"};
  }
  return ask_in(view->block(), process, command, argument, deadline);
}

}  // namespace cinch::telemetry
