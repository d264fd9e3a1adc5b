// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/telemetry.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include <torch/version.h>

#include "agent/telemetry/writer.h"
#include "allocator/torch/host_allocator.h"
#include "hooks/torch/outside/control.h"
#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/program/op_context.h"

namespace cinch::hooks {
namespace {

using telemetry::Writer;

constexpr int most_cuda_devices = static_cast<int>(telemetry::most_devices) - 1;

std::atomic<bool> wanted{false};
std::atomic<bool> making{false};
std::atomic<Writer*> writer{nullptr};  // never destroyed: other threads may be using it
std::string& policy_name = *new std::string;

// Figures of steps; used by the thread that has the Writer::Turn.
struct Steps {
  std::uint64_t last = 0;   // steps that had ended at the first boundary of the current step
  std::uint64_t began = 0;  // time of that boundary
  std::uint64_t nanoseconds = 0;
  std::uint64_t boundaries = 0;
  std::uint64_t raw = 0;  // the most at any boundary since then
  std::uint64_t stored = 0;
  std::uint64_t allocated = 0;
  std::uint64_t reserved = 0;
};
Steps steps;

// Makes the telemetry and control segments. Null if that fails, or if it was begun before.
Writer* make_segment() noexcept {
  if (making.exchange(true, std::memory_order_acq_rel)) return nullptr;
  try {
    std::string error;
    auto made = Writer::create(telemetry::segment_directory(),
                               telemetry::own_identity(policy_name, TORCH_VERSION), error);
    if (made != nullptr) {
      writer.store(made.release(), std::memory_order_release);
      begin_control();
      return writer.load(std::memory_order_relaxed);
    }
  } catch (const std::exception&) {
    // No memory for a path.
  }
  wanted.store(false, std::memory_order_relaxed);
  return nullptr;
}

void publish_device(Writer& to, std::int64_t index, const allocator::Core* core, Steps& sum) {
  if (core == nullptr) return;
  const allocator::Stats stats = core->stats();
  telemetry::DeviceFigures figures = {index,          stats.allocated,     stats.peak_allocated,
                                      stats.reserved, stats.peak_reserved, {}};
  if (index >= 0) {
    const auto device = static_cast<int>(index);
    if (const auto* known = cuda_plugin()->describe(device)) figures.name.assign(known->name);
  }
  to.set_device(figures);
  sum.allocated += stats.allocated;
  sum.reserved += stats.reserved;
}

void publish_devices(Writer& to) {
  steps.allocated = steps.reserved = 0;
  const auto* plugin = cuda_plugin();
  bool any = false;
  for (int i = 0; plugin != nullptr && i < most_cuda_devices; ++i) {
    const allocator::Core* core = plugin->used_core(i);
    any = any || core != nullptr;
    publish_device(to, i, core, steps);
  }
  Steps host;
  publish_device(to, -1, allocator::host_core(), any ? host : steps);
}

// Numbers rows in the order of `statistics`. Returns the sums of their guard checks and moves.
std::pair<std::uint64_t, std::uint64_t> publish_rows(Writer& to, const Statistics& statistics) {
  std::size_t number = 0;
  std::uint64_t checks = 0;
  std::uint64_t moves = 0;
  const std::uint64_t known = to.segment().rows_used.load(std::memory_order_relaxed);
  for (const OpTotals* row = statistics.first(); row != nullptr;
       row = row->next.load(std::memory_order_acquire), ++number) {
    checks += row->checks.load(std::memory_order_relaxed);
    moves += row->moves.load(std::memory_order_relaxed);
    if (number >= telemetry::most_rows) continue;
    if (number >= known) {
      telemetry::RowKey key;
      key.op.assign(row->op.c_str());
      key.operand.assign(row->operand.c_str());
      key.codec.assign(row->codec.c_str());
      to.add_row(key);
    }
    to.set_row(
        number,
        {row->count.load(std::memory_order_relaxed), row->raw_bytes.load(std::memory_order_relaxed),
         row->stored_bytes.load(std::memory_order_relaxed),
         row->encode_nanoseconds.load(std::memory_order_relaxed),
         row->decode_nanoseconds.load(std::memory_order_relaxed),
         row->checks.load(std::memory_order_relaxed), row->moves.load(std::memory_order_relaxed),
         row->worst_relative_error.load(std::memory_order_relaxed),
         row->worst_gradient_error.load(std::memory_order_relaxed)});
  }
  if (number > telemetry::most_rows) to.set_rows_dropped(number - telemetry::most_rows);
  return {checks, moves};
}

}  // namespace

void begin_telemetry(std::string policy) {
  policy_name = std::move(policy);
  wanted.store(true, std::memory_order_relaxed);
}

bool telemetry_wanted() noexcept {
  return wanted.load(std::memory_order_relaxed);
}

void publish_boundary(telemetry::LiveFigures live, const Statistics& statistics) noexcept {
  if (!telemetry_wanted()) return;
  Writer* to = writer.load(std::memory_order_acquire);
  if (to == nullptr) to = make_segment();
  if (to == nullptr) return;
  const Writer::Turn turn(*to);
  if (!turn) return;
  const std::uint64_t now = telemetry::monotonic_now();
  // The optimizer's steps; if there were none, the backwards that came before this one.
  const std::uint64_t of_optimizer = optimizer_steps();
  const std::uint64_t step = of_optimizer != 0 ? of_optimizer : steps.boundaries;
  const bool ended = steps.boundaries != 0 && step > steps.last;
  live.nanoseconds_in_cinch = statistics.nanoseconds_spent();
  if (ended || steps.boundaries == 0) publish_devices(*to);
  if (ended) {
    steps.nanoseconds = (now - steps.began) / (step - steps.last);
    to->add_history({0, now, step, steps.nanoseconds, steps.raw, steps.stored,
                     live.nanoseconds_in_cinch, steps.allocated, steps.reserved});
  }
  if (ended || steps.boundaries == 0 || step < steps.last) {
    steps.last = step;
    steps.began = now;
    steps.raw = steps.stored = 0;
  }
  ++steps.boundaries;
  if (live.raw >= steps.raw) {
    steps.raw = live.raw;
    steps.stored = live.stored;
  }
  const auto [checks, moves] = publish_rows(*to, statistics);
  const Statistics::Rescue rescued = statistics.rescued();
  live.heartbeat = now;
  live.steps = step;
  live.boundaries = steps.boundaries;
  live.step_nanoseconds = steps.nanoseconds;
  live.guard_checks = checks;
  live.guard_moves = moves;
  live.rescues = statistics.rescues();
  live.rescued = rescued.encoded + rescued.harder;
  live.rescued_by_offload = rescued.moved;
  live.given_by_others = statistics.given_by_others();
  to->publish(live);
}

void publish_event(telemetry::EventKind kind, const char* text) noexcept {
  if (Writer* to = writer.load(std::memory_order_acquire)) to->event(kind, optimizer_steps(), text);
}

bool telemetry_want(const telemetry::Want& want, int device) noexcept {
  Writer* to = writer.load(std::memory_order_acquire);
  if (to == nullptr) to = make_segment();
  if (to == nullptr) return false;
  if (const Writer::Turn turn(*to); turn) {
    Steps unused;
    publish_device(*to, device, cuda_plugin()->core(device), unused);
  }
  to->set_want(want);
  return true;
}

void telemetry_policy(const std::string& name) {
  policy_name = name;
  if (Writer* to = writer.load(std::memory_order_acquire)) to->set_policy(name.c_str());
}

void begin_telemetry_in_child() noexcept {
  begin_control_in_child();
  if (Writer* of_parent = writer.exchange(nullptr, std::memory_order_acq_rel)) of_parent->forget();
  steps = {};
  making.store(false, std::memory_order_relaxed);
}

void end_telemetry() noexcept {
  wanted.store(false, std::memory_order_relaxed);
  end_control();
  if (Writer* own = writer.load(std::memory_order_acquire)) own->remove();
}

}  // namespace cinch::hooks
