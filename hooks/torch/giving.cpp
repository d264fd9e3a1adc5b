// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/giving.h"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>

#include "agent/telemetry/control.h"
#include "hooks/torch/control.h"
#include "hooks/torch/cuda_plugin.h"
#include "hooks/torch/telemetry.h"

namespace cinch::hooks {
namespace {

enum class State : std::uint8_t { not_started, running, ended };

std::atomic<State> state{State::not_started};
std::atomic<bool> stopping{false};
std::atomic<std::uint64_t> devices{0};
pthread_t thread;

// Bytes.
std::size_t give(std::uint64_t device) noexcept {
  // Another process wrote the number.
  if (device >= 64 || (devices.load(std::memory_order_acquire) >> device & 1) == 0) return 0;
  allocator::Core* core = cuda_plugin()->core(static_cast<int>(device));
  if (core == nullptr) return 0;
  try {
    // A new thread's device is the first one, on which the program may have no context: going back
    // and forth between them would make one.
    c10::impl::getDeviceGuardImpl(c10::kCUDA)
        ->uncheckedSetDevice(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
  } catch (const std::exception&) {
    return 0;
  }
  const std::size_t bytes = core->release_idle();
  if (bytes != 0) {
    telemetry_event(telemetry::EventKind::message,
                    "gave back %zu MiB of device %d: another process had run out of memory",
                    bytes / allocator::mebibyte, static_cast<int>(device));
  }
  return bytes;
}

void* listen(void*) {
  telemetry::Control& own = *own_control();
  std::uint64_t seen = 0;  // as a fresh segment has it
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
  // A new thread starts with its maker's signal mask: none of the program's signals is for it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  const bool started = pthread_create(&thread, nullptr, listen, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return;
  pthread_setname_np(thread, "cinch-giving");
  state.store(State::running, std::memory_order_release);
}

void may_give_of(int device) noexcept {
  if (device < 0 || device >= 64) return;
  const std::uint64_t bit = std::uint64_t{1} << device;
  if ((devices.load(std::memory_order_relaxed) & bit) == 0) {
    devices.fetch_or(bit, std::memory_order_release);
  }
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
  devices.store(0, std::memory_order_relaxed);
}

}  // namespace cinch::hooks
