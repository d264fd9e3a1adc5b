// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/control.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "agent/telemetry/control.h"
#include "allocator/config.h"
#include "hooks/torch/outside/control_snapshot_program.h"
#include "hooks/torch/outside/giving.h"
#include "hooks/torch/outside/memory_of_others.h"
#include "hooks/torch/outside/snapshot_file_program.h"
#include "hooks/torch/process/interpreter.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/streams.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using telemetry::Command;
using telemetry::Control;

std::atomic<Control*> control{nullptr};  // never destroyed: other threads may be using it

// The outcome of a request; `waits`: it is answered later.
struct Outcome {
  bool done = false;
  std::string words;
  bool waits = false;
};

void changed(const std::string& words) {
  if (Control* own = control.load(std::memory_order_acquire)) own->answer(true, words);
}

Outcome change_to(policy::Settings settings) {
  if (stash().dry_run() != nullptr) return {false, "this is a dry run: it follows no policy"};
  if (!policy::Policy(settings).enabled()) {
    return {false, "found a policy that takes nothing, expected another: use --pause"};
  }
  if ((settings.stream == policy::Stream::side) != stash().side().is_on()) {
    return {false, std::string("found the stream ") +
                       (stash().side().is_on() ? "current" : "side") + ", expected " +
                       (stash().side().is_on() ? "side" : "current") +
                       ": it can't be changed while the program runs"};
  }
  stash().policy().change(std::move(settings), changed);
  return {false, "", true};
}

Outcome change_policy(std::string_view argument) {
  const std::size_t end = argument.find('\0');
  if (end == argument.npos) return {false, "the request has no policy"};
  auto parsed = policy::parse_settings(argument.substr(end + 1), argument.substr(0, end));
  if (const auto* error = std::get_if<policy::PolicyError>(&parsed)) {
    return {false, error->to_string()};
  }
  return change_to(std::get<policy::Settings>(std::move(parsed)));
}

Outcome change_budget(std::string_view argument) {
  policy::Settings settings = stash().settings();
  const char* const end = argument.data() + argument.size();
  const auto [at, error] = std::from_chars(argument.data(), end, settings.budget.peak_bytes);
  if (error != std::errc{} || at != end || settings.budget.peak_bytes == 0) {
    return {false, "found the budget \"" + std::string(argument.substr(0, 64)) +
                       "\", expected bytes, 1 or more"};
  }
  settings.policy = "budget";
  settings.name = "budget of " + std::string(argument) + " bytes";
  settings.budget.ratio = 0;
  return change_to(std::move(settings));
}

Outcome empty_cache() {
  auto* cuda = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (cuda != nullptr && !cuda->initialized()) cuda = nullptr;
  const int devices = cuda == nullptr ? 0 : at::detail::getCUDAHooks().deviceCount();
  // Bytes that PyTorch's allocator has reserved on all CUDA devices.
  const auto reserved = [&] {
    std::int64_t bytes = 0;
    for (int i = 0; i < devices; ++i) {
      const auto stats = cuda->getDeviceStats(static_cast<c10::DeviceIndex>(i));
      bytes += stats.reserved_bytes[0].current;
    }
    return bytes;
  };
  for (int i = 0; cuda_codecs() != nullptr && i < devices; ++i) {
    if (is_capturing(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i)))) {
      return {false, "a CUDA graph is being captured: ask again later"};
    }
  }
  std::uint64_t given = stash().release_idle();
  const std::int64_t before = reserved();
  if (cuda != nullptr) cuda->emptyCache();
  given += static_cast<std::uint64_t>(std::max<std::int64_t>(before - reserved(), 0));
  return {true, "gave back " + std::to_string(given / allocator::mebibyte) + " MiB"};
}

Outcome write_snapshot(std::string_view path) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string hexadecimal;
  for (const char c : path) {
    hexadecimal += digits[static_cast<unsigned char>(c) >> 4];
    hexadecimal += digits[static_cast<unsigned char>(c) & 15];
  }
  const std::string program = std::string(snapshot_file_program()) + control_snapshot_program() +
                              "state = dump(\"" + hexadecimal + "\")\n";
  const std::string state = run_python(program.c_str(), "state");
  if (state == "written") return {true, "written to " + std::string(path)};
  return {false, state.empty() ? "there is no Python to write a snapshot with" : state};
}

Outcome carry_out(const telemetry::Request& request) {
  switch (request.command) {
    case Command::policy:
      return change_policy(request.argument);
    case Command::budget:
      return change_budget(request.argument);
    case Command::pause:
    case Command::resume: {
      const bool pause = request.command == Command::pause;
      PolicyInForce& policy = stash().policy();
      if (policy.is_paused() == pause) return {true, pause ? "was paused" : "was not paused"};
      policy.pause(pause);
      return {true, pause ? "paused: what is saved from now on stays with PyTorch" : "goes on"};
    }
    case Command::empty_cache:
      return empty_cache();
    case Command::snapshot:
      return write_snapshot(request.argument);
  }
  return {false, "the request is of a kind that this process does not know"};
}

}  // namespace

void begin_control() noexcept {
  try {
    std::string error;
    auto made = Control::create(telemetry::segment_directory(), telemetry::own_process(), error);
    control.store(made.release(), std::memory_order_release);
    begin_giving();
  } catch (const std::exception&) {
    // No memory for a path: nobody can ask.
  }
}

Control* own_control() noexcept {
  return control.load(std::memory_order_acquire);
}

void serve_control(bool python_may_run) noexcept {
  Control* own = control.load(std::memory_order_acquire);
  if (own == nullptr || !own->asked()) return;
  if (!python_may_run && own->asked_for() == Command::snapshot) return;
  try {
    const auto request = own->take();
    if (!request) return;
    const Outcome outcome = carry_out(*request);
    if (!outcome.waits) own->answer(outcome.done, outcome.words);
  } catch (const std::exception& error) {
    own->answer(false, error.what());
  }
}

void begin_control_in_child() noexcept {
  begin_giving_in_child();
  begin_asking_in_child();
  if (Control* of_parent = control.exchange(nullptr, std::memory_order_acq_rel)) {
    of_parent->forget();
  }
}

void end_control() noexcept {
  end_giving();
  if (Control* own = control.load(std::memory_order_acquire)) own->remove();
}

}  // namespace cinch::hooks
