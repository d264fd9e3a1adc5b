// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/give.h"

#include <algorithm>

#include "agent/telemetry/control_view.h"
#include "agent/telemetry/futex.h"

namespace cinch::telemetry {
namespace {

// Nanoseconds between two checks whether the process still lives.
constexpr std::uint64_t look_period = 100'000'000;

}  // namespace

std::optional<std::uint64_t> ask_to_give(const std::string& directory, const ProcessKey& process,
                                         std::uint64_t index, double patience) {
  std::string why;
  const auto view = ControlView::open(directory, process, why);
  if (view == nullptr) return std::nullopt;
  ControlBlock& block = view->block();
  block.give_device.store(index, std::memory_order_relaxed);
  const std::uint64_t request = advance(block.give_asked);
  const std::uint64_t end =
      monotonic_now() + static_cast<std::uint64_t>(std::max(patience, 0.0) * 1e9);
  for (;;) {
    const std::uint64_t done = block.give_done.load(std::memory_order_acquire);
    if (done == request) return block.gave.load(std::memory_order_relaxed);
    const std::uint64_t now = monotonic_now();
    if (now >= end || life_of(process) == Life::gone) return std::nullopt;
    sleep_on(block.give_done, done, std::min(end - now, look_period));
  }
}

bool answer_want(const std::string& directory, const ProcessKey& process, std::uint64_t want,
                 std::uint64_t bytes) {
  std::string why;
  const auto view = ControlView::open(directory, process, why);
  if (view == nullptr) return false;
  ControlBlock& block = view->block();
  block.granted.store(bytes, std::memory_order_relaxed);
  block.want_heard.store(want, std::memory_order_release);
  wake(block.want_heard);
  return true;
}

}  // namespace cinch::telemetry
