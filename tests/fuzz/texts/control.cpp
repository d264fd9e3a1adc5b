// SPDX-License-Identifier: Apache-2.0
// The words by which others ask a process for something.
#include "agent/telemetry/control.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using cinch::telemetry::Control;
using cinch::telemetry::ControlBlock;

/// A process's segment, and what others see of it.
struct Segment {
  Segment() {
    const std::string directory = "/tmp";
    const auto process = cinch::telemetry::own_process();
    std::string error;
    control = Control::create(directory, process, error);
    if (control == nullptr) std::abort();
    const int file = open(cinch::telemetry::control_path(directory, process).c_str(), O_RDWR);
    block = static_cast<ControlBlock*>(
        mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    control->remove();
    if (block == MAP_FAILED) std::abort();
  }

  /// From `state` on, as an asker writes it.
  void fill(const std::uint8_t* data, std::size_t size) const {
    auto* const begin = reinterpret_cast<std::uint8_t*>(&block->state);
    const std::size_t most = sizeof(ControlBlock) - offsetof(ControlBlock, state);
    std::memcpy(begin, data, std::min(size, most));
  }

  std::unique_ptr<Control> control;
  ControlBlock* block = nullptr;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Segment& segment = *new Segment;
  segment.fill(data, size);
  if (const auto request = segment.control->take()) {
    if (request->argument.size() > ControlBlock::most_argument_bytes) std::abort();
    segment.control->answer(true, request->argument);
  }
  if (segment.control->asked()) std::abort();
  segment.control->gave(segment.control->asked_to_give(), segment.control->device_to_give());
  static_cast<void>(segment.control->heard());
  return 0;
}
