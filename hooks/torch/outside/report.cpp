// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/report.h"

#include <cstdio>
#include <cstdlib>

#include <torch/version.h>

#include "agent/telemetry/process.h"
#include "hooks/preload/environment.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/stash/device/memory.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// A report with the facts of this process that every report has.
telemetry::Report of_this_process() {
  telemetry::Report report;
  const telemetry::ProcessKey self = telemetry::own_process();
  report.pid = static_cast<std::int64_t>(self.pid);
  report.start_ticks = self.start_ticks;
  report.pid_namespace = self.pid_namespace;
  report.command = telemetry::command_line();
  report.torch_version = TORCH_VERSION;
  report.peak_rss_bytes = peak_resident_bytes();
  return report;
}

telemetry::Report* last_report = nullptr;  // never destroyed

// Runs after all exit handlers. Those of libraries read much of their files: NVIDIA's add 110 MiB
// to what is resident, with Cinch and without.
[[gnu::destructor]] void correct_last_report() {
  if (last_report == nullptr) return;
  if_memory_allows([] {
    const std::uint64_t peak = peak_resident_bytes();
    if (peak <= last_report->peak_rss_bytes) return;
    last_report->peak_rss_bytes = peak;
    leave_report(*last_report);
  });
}

}  // namespace

bool details_wanted() noexcept {
  const char* where = std::getenv("CINCH_REPORT");
  return where != nullptr && *where != '\0' && !is_off("CINCH_REPORT_DETAILS");
}

telemetry::Report current_report() {
  telemetry::Report report = of_this_process();
  report.active = true;
  report.policy = stash().settings().name;
  report.steps = optimizer_steps();
  report.optimizer = optimizer_class();
  const EntryLists::Peak peak = stash().lists().peak_so_far();
  report.raw_bytes_at_peak = peak.raw_bytes;
  report.stored_bytes_at_peak = peak.stored_bytes;
  report.held_elsewhere_bytes_at_peak = peak.held_elsewhere_bytes;
  report.offloaded_bytes_at_peak = peak.offloaded_bytes;
  const PinnedPool::Figures pinned = stash().devices().offloader().pinned();
  report.peak_pinned_bytes = pinned.peak_used;
  report.reserved_pinned_bytes = pinned.reserved;
  if (peak.stored_bytes != 0) {
    report.ratio = static_cast<double>(peak.raw_bytes) / static_cast<double>(peak.stored_bytes);
  }
  report.stash_bytes_at_exit = stash().lists().bytes();
  report.rss_bytes_at_start = stash().statistics().rss_at_start();
  report.devices = device_memory();
  for (auto& device : report.devices) {
    const int index = static_cast<int>(device.index);
    device.stash_bytes_at_most = stash().lists().most_settled_bytes(index);
    const InFlight::Figures in_flight = stash().devices().encoder().figures(index);
    device.in_flight_bytes_at_most = in_flight.most_bytes;
    device.encodes_held_back = in_flight.refused;
    const InFlight::Figures unsized = stash().devices().unsized().figures(index);
    device.unsized_bytes_at_most = unsized.most_bytes;
    device.encodes_put_off = unsized.refused;
  }
  stash().statistics().fill(report);
  stash().lists().fill_timeline(report);
  if (const DryRun* dry_run = stash().dry_run()) dry_run->fill(report);
  if (const Appraisal* appraisal = stash().appraisal()) appraisal->fill(report);
  if (is_off("CINCH_REPORT_DETAILS")) {
    report.entries.clear();
    report.memory.clear();
    report.events.clear();
  }
  return report;
}

telemetry::Report inactive_report(std::string reason, std::string policy) {
  telemetry::Report report = of_this_process();
  report.inactive_reason = std::move(reason);
  report.policy = std::move(policy);
  return report;
}

void leave_last_report() {
  last_report = new telemetry::Report(current_report());
  leave_report(*last_report);
}

void leave_report(const telemetry::Report& report) {
  const char* where = std::getenv("CINCH_REPORT");
  if (where == nullptr || *where == '\0') return;
  const std::string path = telemetry::with_pid(where, static_cast<std::uint64_t>(report.pid));
  const std::string error = telemetry::write_report(report, path);
  if (!error.empty()) std::fprintf(stderr, "cinch: no report: %s\n", error.c_str());
}

}  // namespace cinch::hooks
