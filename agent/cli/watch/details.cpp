// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/details.h"

#include <algorithm>
#include <utility>

#include "agent/cli/text.h"
#include "agent/cli/watch/facts.h"

namespace cinch::cli {
namespace {

using telemetry::Run;
using Look = ScreenLine::Look;

std::vector<std::string> op_table(const std::vector<Run::Row>& rows, bool per_codec) {
  std::vector<std::string> header;
  if (!per_codec) header = {"operator", "operand"};
  header.insert(header.end(), {"codec", ">count", ">raw", ">stored", ">ratio", ">encode", ">decode",
                               ">error", ">moved"});
  Table table(header);
  for (const Run::Row& row : rows) {
    const auto& f = row.figures;
    std::vector<std::string> cells;
    if (!per_codec) {
      cells = {row.op.empty()                 ? "(unknown)"
               : row.op.starts_with("aten::") ? row.op.substr(6)
                                              : row.op,
               row.operand};
    }
    cells.insert(cells.end(), {row.codec, std::to_string(f.count), human_bytes(f.raw),
                               human_bytes(f.stored), human_ratio(f.raw, f.stored),
                               human_seconds(static_cast<double>(f.encode_nanoseconds) * 1e-9),
                               human_seconds(static_cast<double>(f.decode_nanoseconds) * 1e-9),
                               f.guard_checks == 0 ? "-" : human_error(f.worst_relative_error),
                               f.guard_moves == 0 ? "-" : std::to_string(f.guard_moves)});
    table.add(std::move(cells));
  }
  std::vector<std::string> lines;
  const std::string text = table.render("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Lines cut to the screen's width.
struct Page {
  void add(const std::string& text, Look look = Look::plain) {
    lines.push_back({fit(text, width), look});
  }
  std::vector<ScreenLine> lines;
  int width;
};

void add_identity(Page& page, const Run& run) {
  const auto& who = run.identity;
  std::string title = "process " + std::to_string(run.process.pid) + ", " + state_of(run);
  if (who.rank >= 0) {
    title += ", rank " + std::to_string(who.rank) + " of " + std::to_string(who.world) + ", job " +
             telemetry::job_of(run);
  }
  page.add(title, Look::title);
  if (!run.note.empty()) page.add(run.note, Look::bad);
  page.add(who.command.str());
  page.add("policy " + who.policy.str() + ", torch " + who.torch.str());
}

void add_figures(Page& page, const Run& run) {
  const auto& l = *run.live;
  const double share = share_in_cinch(run);
  page.add("step " + std::to_string(l.steps) + ", " + step_time_of(run) + " each, " +
           human_seconds(static_cast<double>(l.nanoseconds_in_cinch) * 1e-9) + " in Cinch" +
           (share < 0 ? "" : ", lately " + percent(share)));
  page.add(
      "at the peak: " + human_bytes(l.raw_at_peak) + " kept as " + human_bytes(l.stored_at_peak) +
      " (" + human_ratio(l.raw_at_peak, l.stored_at_peak) + ")" +
      (l.held_elsewhere_at_peak == 0
           ? ""
           : ", " + human_bytes(l.held_elsewhere_at_peak) + " more held by the program itself"));
  if (run.rss != 0) {
    page.add("process: " + human_bytes(run.rss) + " resident, at most " +
             human_bytes(run.peak_rss));
  }
  for (const auto& d : run.devices) {
    page.add(device_name(d) + ": " + human_bytes(d.allocated) + " allocated of " +
             human_bytes(d.reserved) + " reserved, " + percent(fragmentation_of(d)) +
             " of it unused; at most " + human_bytes(d.peak_allocated) + " of " +
             human_bytes(d.peak_reserved));
  }
  if (l.pinned_reserved != 0) {
    page.add("offloaded: " + human_bytes(l.offloaded) + ", in " + human_bytes(l.pinned) + " of " +
             human_bytes(l.pinned_reserved) + " page-locked memory of the host");
  }
  if (l.rescues != 0) {
    page.add("memory ran out " + std::to_string(l.rescues) + " times: " + human_bytes(l.rescued) +
             " were freed by compressing" +
             (l.rescued_by_offload == 0
                  ? ""
                  : ", " + human_bytes(l.rescued_by_offload) + " by moving to the host"));
  }
  if (l.given_by_others != 0) {
    page.add("memory ran out and other processes gave back " + human_bytes(l.given_by_others));
  }
}

void add_series(Page& page, const Run& run, bool unicode) {
  const int spark = std::clamp(page.width - 30, 8, 60);
  const struct {
    const char* name;
    std::uint64_t telemetry::HistoryPoint::*what;
    bool time;
  } kinds[] = {{"raw      ", &telemetry::HistoryPoint::raw, false},
               {"stored   ", &telemetry::HistoryPoint::stored, false},
               {"step time", &telemetry::HistoryPoint::step_nanoseconds, true}};
  for (const auto& kind : kinds) {
    const auto values = series(run, kind.what);
    if (values.empty()) continue;
    const double most = *std::ranges::max_element(values);
    page.add(
        std::string(kind.name) + ' ' + sparkline(values, spark, unicode) + "  at most " +
        (kind.time ? human_seconds(most * 1e-9) : human_bytes(static_cast<std::uint64_t>(most))));
  }
}

void add_rows(Page& page, const Run& run, bool per_codec) {
  page.add(per_codec ? "by codec (sums since the start)" : "by operator (sums since the start)",
           Look::title);
  Look look = Look::header;
  for (const auto& line : op_table(per_codec ? by_codec(run) : by_size(run), per_codec)) {
    page.add(line, std::exchange(look, Look::plain));
  }
  if (run.rows_dropped != 0) {
    page.add("and " + counted(run.rows_dropped, "row") + " that found no room", Look::dim);
  }
}

void add_events(Page& page, const Run& run) {
  page.add("events, latest first", Look::title);
  for (auto it = run.events.rbegin(); it != run.events.rend(); ++it) {
    page.add("step " + std::to_string(it->step) + ": " +
             (it->kind == telemetry::EventKind::guard ? "guard: " : "") + it->text.str());
  }
  if (run.events_dropped != 0) {
    page.add("and " + counted(run.events_dropped, "earlier event"), Look::dim);
  }
}

}  // namespace

std::vector<ScreenLine> details_of(const Run& run, int width, bool unicode, bool per_codec) {
  Page page{{}, width};
  add_identity(page, run);
  if (!run.live) {
    page.add("no step yet");
    return std::move(page.lines);
  }
  add_figures(page, run);
  page.add("");
  add_series(page, run, unicode);
  page.add("");
  add_rows(page, run, per_codec);
  if (!run.events.empty()) {
    page.add("");
    add_events(page, run);
  }
  return std::move(page.lines);
}

}  // namespace cinch::cli
