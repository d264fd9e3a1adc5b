// SPDX-License-Identifier: Apache-2.0
#include "tools/replay/replay.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "allocator/core.h"

namespace cinch::allocator {
namespace {

class CinchSubject final : public Subject {
 public:
  explicit CinchSubject(FakeDriver& device) : core_(device.table()) {}
  std::uint64_t allocate(std::size_t bytes, std::uint32_t stream) override {
    return core_.allocate(bytes, stream);
  }
  void free(std::uint64_t block) override { core_.free(block); }
  void record_stream(std::uint64_t block, std::uint32_t stream) override {
    core_.record_stream(block, stream);
  }

 private:
  Core core_;
};

std::uint64_t memory_calls(const FakeDriver& device) {
  std::uint64_t sum = 0;
  for (std::size_t call = 0; call <= static_cast<std::size_t>(Call::memory_info); ++call) {
    sum += device.calls(static_cast<Call>(call));
  }
  return sum;
}

/// The device's work with the trace's blocks, one piece for each operation. An operation takes a
/// nanosecond.
class DeviceWork {
 public:
  DeviceWork(const Trace& trace, FakeDriver& device)
      : device_(device), streams_(trace.allocations) {}
  void issue(const Trace::Operation& operation) {
    device_.advance(1);
    if (operation.kind == Trace::Kind::step) return;
    if (operation.kind == Trace::Kind::allocate) streams_[operation.number] = operation.stream;
    device_.work(operation.kind == Trace::Kind::free ? streams_[operation.number]
                                                     : operation.stream);
  }

 private:
  FakeDriver& device_;
  std::vector<std::uint32_t> streams_;  // of each allocation
};

Outcome run(const char* name, std::unique_ptr<Subject> (*make)(FakeDriver&), const Trace& trace,
            std::size_t memory, double lag) {
  FakeDriver::Options options;
  options.memory_bytes = memory;
  options.lag = static_cast<std::uint64_t>(lag * trace.operations_per_step());
  FakeDriver device(options);
  DeviceWork work(trace, device);
  const std::unique_ptr<Subject> subject = make(device);
  Outcome outcome;
  outcome.allocator = name;
  std::vector<std::uint64_t> blocks(trace.allocations);
  std::vector<bool> refused(trace.allocations);
  std::uint64_t calls_at_step = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const Trace::Operation& operation : trace.operations) {
    work.issue(operation);
    switch (operation.kind) {
      case Trace::Kind::allocate:
        blocks[operation.number] = subject->allocate(operation.bytes, operation.stream);
        refused[operation.number] = blocks[operation.number] == 0;
        break;
      case Trace::Kind::free:
        if (blocks[operation.number] != 0) subject->free(blocks[operation.number]);
        break;
      case Trace::Kind::record_stream:
        if (blocks[operation.number] != 0) {
          subject->record_stream(blocks[operation.number], operation.stream);
        }
        break;
      case Trace::Kind::step: {
        const std::uint64_t calls = memory_calls(device);
        outcome.calls_in_last_step = calls - calls_at_step;
        calls_at_step = calls;
        break;
      }
    }
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.refused = static_cast<std::uint64_t>(std::ranges::count(refused, true));
  outcome.peak_allocated = trace.peak_bytes(refused);
  outcome.peak_reserved = device.peak_created_bytes();
  outcome.memory_calls = memory_calls(device);
  outcome.event_calls = device.calls() - outcome.memory_calls;
  outcome.host_waits = device.calls(Call::event_synchronize);
  return outcome;
}

}  // namespace

std::unique_ptr<Subject> cinch_subject(FakeDriver& device) {
  return std::make_unique<CinchSubject>(device);
}

std::vector<Outcome> replay(const Trace& trace, std::size_t memory, double lag) {
  return {run("cinch", cinch_subject, trace, memory, lag),
          run("native", native_subject, trace, memory, lag),
          run("expandable", expandable_subject, trace, memory, lag)};
}

}  // namespace cinch::allocator
