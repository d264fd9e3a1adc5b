// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/memory_of_others.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

#include <unistd.h>

#include "agent/telemetry/agent_post.h"
#include "agent/telemetry/control.h"
#include "agent/telemetry/process.h"
#include "hooks/torch/outside/control.h"
#include "hooks/torch/outside/telemetry.h"
#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using telemetry::monotonic_now;

// Nanoseconds.
constexpr std::uint64_t look_period = 100'000'000;  // between two looks at whether the agent lives
/// How long an agent that did not answer is not asked again: a program that catches out-of-memory
/// errors and tries again would wait each time.
constexpr std::uint64_t rest = 10'000'000'000;

std::atomic<bool> asking{false};
std::atomic<std::uint64_t> resting_until{0};
std::uint64_t wants = 0;  // written by the thread that has the Turn

// The right to ask, which one thread has at a time. Waits for it until `end`.
class Turn {
 public:
  explicit Turn(std::uint64_t end) noexcept {
    while (asking.exchange(true, std::memory_order_acquire)) {
      if (monotonic_now() >= end) return;
      usleep(1000);
    }
    mine_ = true;
  }
  ~Turn() {
    if (mine_) asking.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const noexcept { return mine_; }

 private:
  bool mine_ = false;
};

// Whether `bytes` fit the device and this process's limit, so that memory of others could help.
bool could_help(const allocator::CudaPlugin& plugin, const allocator::CudaDevice& device, int index,
                std::size_t bytes) {
  allocator::Core* core = plugin.core(index);
  if (core == nullptr || bytes > device.total_bytes) return false;
  const std::size_t limit = core->limit();
  return bytes <= limit && core->stats().allocated <= limit - bytes;
}

std::size_t ask(int index, std::size_t bytes) {
  const double seconds = stash().settings().ask_others_seconds;
  const allocator::CudaPlugin* plugin = cuda_plugin();
  if (seconds <= 0 || plugin == nullptr || !telemetry_wanted()) return 0;
  const std::uint64_t began = monotonic_now();
  if (began < resting_until.load(std::memory_order_relaxed)) return 0;
  const allocator::CudaDevice* device = plugin->describe(index);
  if (device == nullptr || !could_help(*plugin, *device, index, bytes)) return 0;
  telemetry::AgentBell bell(telemetry::segment_directory());
  if (!bell.alive()) return 0;
  const std::uint64_t end = began + static_cast<std::uint64_t>(seconds * 1e9);
  const Turn turn(end);
  if (!turn) return 0;
  telemetry::Want want;
  want.number = wants + 1;
  want.time = monotonic_now();
  want.bytes = bytes;
  want.device.assign(device->name);
  if (!telemetry_want(want, index)) return 0;
  telemetry::Control* own = own_control();
  if (own == nullptr) return 0;
  wants = want.number;
  bell.ring();
  for (;;) {
    const auto heard = own->heard();
    if (heard.want == want.number) return heard.bytes;
    const std::uint64_t now = monotonic_now();
    if (now >= end || !bell.alive()) {
      resting_until.store(now + rest, std::memory_order_relaxed);
      return 0;
    }
    own->sleep_until_heard(heard.want, std::min(end - now, look_period));
  }
}

}  // namespace

std::size_t ask_others_for(int device, std::size_t bytes) noexcept {
  try {
    const std::size_t given = ask(device, bytes);
    if (given != 0) stash().rescue().note_given(device, given);
    return given;
  } catch (const std::exception&) {
    return 0;  // no memory for a path
  }
}

void begin_asking_in_child() noexcept {
  asking.store(false, std::memory_order_relaxed);
  resting_until.store(0, std::memory_order_relaxed);
  wants = 0;
}

}  // namespace cinch::hooks
