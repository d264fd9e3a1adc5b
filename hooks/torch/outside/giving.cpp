// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/giving.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pthread.h>

#include "agent/telemetry/control.h"
#include "agent/telemetry/quiet_thread.h"
#include "hooks/torch/outside/control.h"
#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/stash/figures/listeners.h"

namespace cinch::hooks {
namespace {

enum class State : std::uint8_t { not_started, running, ended };

std::atomic<State> state{State::not_started};
std::atomic<bool> stopping{false};
pthread_t thread;

// Gives back the idle memory of a CUDA device. Returns the bytes.
std::size_t give(std::uint64_t device) noexcept {
  // Another process wrote the number: it may be out of range.
  if (!std::in_range<int>(device)) return 0;
  allocator::Core* core = cuda_plugin()->used_core(static_cast<int>(device));
  if (core == nullptr) return 0;
  const std::size_t bytes = core->release_idle();
  if (bytes != 0) {
    tell(telemetry::EventKind::message,
         "gave back %zu MiB of device %d: another process had run out of memory",
         bytes / allocator::mebibyte, static_cast<int>(device));
  }
  return bytes;
}

void* listen(void*) {
  telemetry::Control& own = *own_control();
  std::uint64_t seen = 0;  // the number in a fresh segment
  while (!stopping.load(std::memory_order_acquire)) {
    const std::uint64_t asked = own.asked_to_give();
    if (asked == seen) {
      own.sleep_until_asked_to_give(seen);
      continue;
    }
    seen = asked;
    if (!stopping.load(std::memory_order_acquire)) own.gave(asked, give(own.device_to_give()));
  }
  return nullptr;
}

}  // namespace

void begin_giving() noexcept {
  if (cuda_plugin() == nullptr || own_control() == nullptr) return;
  if (!telemetry::start_quiet_thread(thread, listen, nullptr, "cinch-giving")) return;
  state.store(State::running, std::memory_order_release);
}

void end_giving() noexcept {
  State running = State::running;
  if (!state.compare_exchange_strong(running, State::ended, std::memory_order_acq_rel)) return;
  stopping.store(true, std::memory_order_release);
  own_control()->interrupt();
  pthread_join(thread, nullptr);
}

void begin_giving_in_child() noexcept {
  state.store(State::not_started, std::memory_order_relaxed);
  stopping.store(false, std::memory_order_relaxed);
}

}  // namespace cinch::hooks
