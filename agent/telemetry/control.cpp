// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/control.h"

#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "agent/telemetry/futex.h"
#include "agent/telemetry/shared_file.h"

namespace cinch::telemetry {

std::string control_path(const std::string& directory, const ProcessKey& process) {
  return directory + '/' + segment_name(process) + ".control";
}

std::unique_ptr<Control> Control::create(const std::string& directory, const ProcessKey& process,
                                         std::string& error) {
  std::string path = control_path(directory, process);
  void* memory = make_shared_file(path, sizeof(ControlBlock), error);
  if (memory == nullptr) return nullptr;
  // Fresh pages are zero, so the phase is `idle`.
  auto* block = static_cast<ControlBlock*>(memory);
  block->magic.store(ControlBlock::magic_value, std::memory_order_relaxed);
  block->version.store(ControlBlock::version_value, std::memory_order_relaxed);
  block->ready.store(1, std::memory_order_release);
  return std::unique_ptr<Control>(new Control(block, std::move(path)));
}

std::optional<Request> Control::take() {
  std::uint64_t state = block_->state.load(std::memory_order_relaxed);
  if ((state & 3) != ControlBlock::asked ||
      !block_->state.compare_exchange_strong(
          state, state - ControlBlock::asked + ControlBlock::taken, std::memory_order_acquire,
          std::memory_order_relaxed)) {
    return std::nullopt;
  }
  // Another process wrote these, so they are checked.
  const std::uint64_t bytes = block_->argument_bytes.load(std::memory_order_relaxed);
  const std::uint64_t command = block_->command.load(std::memory_order_relaxed);
  if (bytes > ControlBlock::most_argument_bytes) {
    answer(false, "the request is longer than its segment");
    return std::nullopt;
  }
  if (command < static_cast<std::uint64_t>(Command::policy) ||
      command > static_cast<std::uint64_t>(Command::snapshot)) {
    answer(false, "the request is of a kind that this process does not know");
    return std::nullopt;
  }
  return Request{static_cast<Command>(command), {block_->argument, bytes}};
}

void Control::answer(bool done, std::string_view words) noexcept {
  block_->done.store(done ? 1 : 0, std::memory_order_relaxed);
  block_->answer.assign(words.data(), words.size());
  const std::uint64_t state = block_->state.load(std::memory_order_relaxed);
  block_->state.store((state & ~std::uint64_t{3}) | ControlBlock::answered,
                      std::memory_order_release);
}

void Control::sleep_until_asked_to_give(std::uint64_t seen) noexcept {
  sleep_on(block_->give_asked, seen, 0);
}

void Control::interrupt() noexcept {
  advance(block_->give_asked);
}

void Control::gave(std::uint64_t request, std::uint64_t bytes) noexcept {
  block_->gave.store(bytes, std::memory_order_relaxed);
  block_->give_done.store(request, std::memory_order_release);
  wake(block_->give_done);
}

Control::Heard Control::heard() const noexcept {
  const std::uint64_t want = block_->want_heard.load(std::memory_order_acquire);
  return {want, block_->granted.load(std::memory_order_relaxed)};
}

void Control::sleep_until_heard(std::uint64_t seen, std::uint64_t nanoseconds) noexcept {
  sleep_on(block_->want_heard, seen, nanoseconds);
}

void Control::remove() noexcept {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

void Control::forget() noexcept {
  munmap(block_, sizeof(ControlBlock));
  block_ = nullptr;
}

}  // namespace cinch::telemetry
