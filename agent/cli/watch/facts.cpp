// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/facts.h"

#include <algorithm>
#include <cstdio>

namespace cinch::cli {
namespace {

using telemetry::Run;
using telemetry::RunState;

// The number of last steps that share_in_cinch() covers.
constexpr std::size_t lately = 20;

void sort_by_raw(std::vector<Run::Row>& rows) {
  std::ranges::stable_sort(
      rows, [](const Run::Row& a, const Run::Row& b) { return a.figures.raw > b.figures.raw; });
}

}  // namespace

double ratio_of(const Run& run) {
  if (!run.live || run.live->stored_at_peak == 0) return 0;
  return static_cast<double>(run.live->raw_at_peak) / static_cast<double>(run.live->stored_at_peak);
}

double share_in_cinch(const Run& run) {
  if (run.history.size() < 2) return -1;
  const auto& last = run.history.back();
  const auto& first = run.history[run.history.size() - std::min(run.history.size(), lately)];
  if (last.time <= first.time || last.nanoseconds_in_cinch < first.nanoseconds_in_cinch) return -1;
  return static_cast<double>(last.nanoseconds_in_cinch - first.nanoseconds_in_cinch) /
         static_cast<double>(last.time - first.time);
}

std::string step_time_of(const Run& run) {
  if (!run.live || run.live->step_nanoseconds == 0) return "-";
  const double seconds = static_cast<double>(run.live->step_nanoseconds) * 1e-9;
  char text[32];
  if (seconds < 1) {
    std::snprintf(text, sizeof text, seconds < 0.01 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, seconds < 10 ? "%.2f s" : "%.0f s", seconds);
  }
  return text;
}

double silence_of(const Run& run) {
  if (!run.live || run.live->heartbeat > run.read_at) return 0;
  return static_cast<double>(run.read_at - run.live->heartbeat) * 1e-9;
}

std::string state_of(const Run& run) {
  const double silence = silence_of(run);
  if (run.state == RunState::running && run.live &&
      silence > std::max(30.0, 5e-9 * static_cast<double>(run.live->step_nanoseconds))) {
    const auto whole = static_cast<std::uint64_t>(silence);
    return "idle " + (whole < 100    ? std::to_string(whole) + "s"
                      : whole < 6000 ? std::to_string(whole / 60) + "m"
                                     : std::to_string(whole / 3600) + "h");
  }
  return std::string(telemetry::word(run.state));
}

telemetry::DeviceFigures memory_of(const Run& run) {
  telemetry::DeviceFigures sum;
  const bool cuda = std::ranges::any_of(run.devices, [](const auto& d) { return d.index >= 0; });
  sum.index = cuda ? 0 : -1;
  for (const auto& device : run.devices) {
    if (cuda != (device.index >= 0)) continue;
    sum.allocated += device.allocated;
    sum.peak_allocated += device.peak_allocated;
    sum.reserved += device.reserved;
    sum.peak_reserved += device.peak_reserved;
  }
  return sum;
}

double fragmentation_of(const telemetry::DeviceFigures& device) {
  if (device.reserved == 0 || device.allocated >= device.reserved) return 0;
  return 1 - static_cast<double>(device.allocated) / static_cast<double>(device.reserved);
}

std::string device_name(const telemetry::DeviceFigures& device) {
  return device.index < 0 ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::vector<Run::Row> by_codec(const Run& run) {
  std::vector<Run::Row> sums;
  for (const Run::Row& row : run.rows) {
    auto sum = std::ranges::find(sums, row.codec, &Run::Row::codec);
    if (sum == sums.end()) sum = sums.insert(sums.end(), Run::Row{"", "", row.codec, {}});
    auto& f = sum->figures;
    f.count += row.figures.count;
    f.raw += row.figures.raw;
    f.stored += row.figures.stored;
    f.encode_nanoseconds += row.figures.encode_nanoseconds;
    f.decode_nanoseconds += row.figures.decode_nanoseconds;
    f.guard_checks += row.figures.guard_checks;
    f.guard_moves += row.figures.guard_moves;
    f.worst_relative_error = std::max(f.worst_relative_error, row.figures.worst_relative_error);
    f.worst_gradient_error = std::max(f.worst_gradient_error, row.figures.worst_gradient_error);
  }
  sort_by_raw(sums);
  return sums;
}

std::vector<Run::Row> by_size(const Run& run) {
  auto rows = run.rows;
  std::erase_if(rows, [](const Run::Row& row) { return row.figures.count == 0; });
  sort_by_raw(rows);
  return rows;
}

}  // namespace cinch::cli
