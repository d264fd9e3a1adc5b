// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/columns.h"

#include <algorithm>

#include "agent/cli/text.h"
#include "agent/cli/watch/facts.h"
#include "agent/cli/watch/line.h"

namespace cinch::cli {
namespace {

using telemetry::Run;

constexpr int least_command = 12;

template <typename F>
auto if_live(F figure) {
  return [figure](const Run& run, bool) { return run.live ? figure(run) : std::string("-"); };
}

}  // namespace

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"RANK", 4, true, 0,
       [](const Run& r, bool) {
         return r.identity.rank < 0 ? "-" : std::to_string(r.identity.rank);
       }},
      {"PID", 7, true, 0, [](const Run& r, bool) { return std::to_string(r.process.pid); }},
      {"STATE", 8, false, 1, [](const Run& r, bool) { return state_of(r); }},
      {"STEP", 7, true, 0, if_live([](const Run& r) { return std::to_string(r.live->steps); })},
      {"STEP TIME", 9, true, 2, [](const Run& r, bool) { return step_time_of(r); }},
      {"RAW", 9, true, 0, if_live([](const Run& r) { return human_bytes(r.live->raw_at_peak); })},
      {"STORED", 9, true, 0,
       if_live([](const Run& r) { return human_bytes(r.live->stored_at_peak); })},
      {"RATIO", 6, true, 0, if_live([](const Run& r) {
         return human_ratio(r.live->raw_at_peak, r.live->stored_at_peak);
       })},
      {"PEAK RSS", 9, true, 3, [](const Run& r, bool) { return bytes_or_dash(r.peak_rss); }},
      {"ALLOCATED", 9, true, 6,
       [](const Run& r, bool) { return bytes_or_dash(memory_of(r).allocated); }},
      {"RESERVED", 9, true, 7,
       [](const Run& r, bool) { return bytes_or_dash(memory_of(r).reserved); }},
      {"FRAG", 5, true, 8,
       [](const Run& r, bool) {
         const auto memory = memory_of(r);
         return memory.reserved == 0 ? "-" : percent(fragmentation_of(memory));
       }},
      {"OFFLOADED", 9, true, 9,
       if_live([](const Run& r) { return bytes_or_dash(r.live->offloaded); })},
      {"CINCH", 5, true, 2, [](const Run& r, bool) { return percent(share_in_cinch(r)); }},
      {"GUARD", 5, true, 4,
       if_live([](const Run& r) { return std::to_string(r.live->guard_moves); })},
      {"STORED, BY STEP", spark_width, false, 5,
       [](const Run& r, bool unicode) {
         return sparkline(series(r, &telemetry::HistoryPoint::stored), spark_width, unicode);
       }},
      {"COMMAND", 0, false, 3,
       [](const Run& r, bool) { return r.note.empty() ? r.identity.command.str() : r.note; }},
  };
  return all;
}

std::vector<const Column*> fitting(int width) {
  std::vector<const Column*> chosen;
  for (const Column& column : columns()) chosen.push_back(&column);
  const auto needed = [&chosen] {
    long sum = -2;
    for (const Column* column : chosen) {
      sum += 2 + (column->width == 0 ? least_command : column->width);
    }
    return sum;
  };
  while (needed() > width && chosen.size() > 1) {
    // Drop the last column of the highest rank.
    auto worst = chosen.begin();
    for (auto it = chosen.begin(); it != chosen.end(); ++it) {
      if ((*it)->rank >= (*worst)->rank) worst = it;
    }
    chosen.erase(worst);
  }
  return chosen;
}

std::string row_text(const std::vector<const Column*>& chosen, int width,
                     const std::function<std::string(const Column&)>& cell) {
  std::string line;
  int used = 0;
  for (const Column* column : chosen) {
    if (!line.empty()) {
      line += "  ";
      used += 2;
    }
    const int wide = column->width != 0 ? column->width : std::max(0, width - used);
    const std::string text = cell(*column);
    line += column->width != 0 ? padded(text, wide, column->right) : fit(text, wide);
    used += wide;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return fit(line, width);
}

}  // namespace cinch::cli
