// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/screen.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>

#include "agent/cli/text.h"
#include "agent/cli/watch/facts.h"

namespace cinch::cli {
namespace {

using telemetry::Run;
using telemetry::RunState;
using Look = ScreenLine::Look;

constexpr int spark_width = 16;
constexpr int unlimited = std::numeric_limits<int>::max();

bool begins_character(char c) {
  return (c & 0xC0) != 0x80;
}

int width_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character));
}

// At most `width` characters; control characters, which would move a terminal's cursor, are shown
// as '?'.
std::string fit(std::string_view text, int width) {
  std::string cut;
  int count = 0;
  for (const char c : text) {
    if (begins_character(c) && ++count > width) break;
    const auto byte = static_cast<unsigned char>(c);
    cut += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return cut;
}

std::string padded(std::string_view text, int width, bool right) {
  std::string cell = fit(text, width);
  const std::string space(static_cast<std::size_t>(std::max(0, width - width_of(cell))), ' ');
  return right ? space + cell : cell + space;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.*f%%", share < 0.0995 ? 1 : 0, share * 100);
  return share < 0 ? "-" : text;
}

std::string bytes_or_dash(std::uint64_t bytes) {
  return bytes == 0 ? "-" : human_bytes(bytes);
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

std::string ratio_text(std::uint64_t raw, std::uint64_t stored) {
  if (stored == 0) return "-";
  return human_ratio(static_cast<double>(raw) / static_cast<double>(stored));
}

template <std::size_t bytes>
std::string string_of(const telemetry::Text<bytes>& text) {
  return {text.chars, text.size()};
}

std::vector<double> series(const Run& run, std::uint64_t telemetry::HistoryPoint::*what) {
  std::vector<double> values;
  for (const auto& point : run.history) values.push_back(static_cast<double>(point.*what));
  return values;
}

struct Column {
  std::string_view header;
  int width;  ///< 0: all that is left
  bool right;
  int rank;  ///< columns of the highest rank go first when the screen is narrow
  std::function<std::string(const Run&, bool unicode)> cell;
};

template <typename F>
auto if_live(F figure) {
  return [figure](const Run& run, bool) { return run.live ? figure(run) : std::string("-"); };
}

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
         return ratio_text(r.live->raw_at_peak, r.live->stored_at_peak);
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
       [](const Run& r, bool) { return r.note.empty() ? string_of(r.identity.command) : r.note; }},
  };
  return all;
}

constexpr int least_command = 12;

// The columns that fit, of those that matter most.
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
    // The last of those of the highest rank.
    auto worst = chosen.begin();
    for (auto it = chosen.begin(); it != chosen.end(); ++it) {
      if ((*it)->rank >= (*worst)->rank) worst = it;
    }
    chosen.erase(worst);
  }
  return chosen;
}

template <typename Cell>
std::string row_text(const std::vector<const Column*>& chosen, int width, Cell cell) {
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

Look look_of(const Run& run) {
  switch (run.state) {
    case RunState::running:
      return Look::plain;
    case RunState::starting:
    case RunState::gone:
      return Look::dim;
    default:
      return Look::bad;
  }
}

std::string job_line(const std::vector<const Run*>& ranks) {
  std::uint64_t raw = 0;
  std::uint64_t stored = 0;
  std::uint64_t slowest = 0;
  for (const Run* run : ranks) {
    if (!run->live) continue;
    raw += run->live->raw_at_peak;
    stored += run->live->stored_at_peak;
    slowest = std::max(slowest, run->live->step_nanoseconds);
  }
  std::string text =
      "job " + telemetry::job_of(*ranks.front()) + ": " + counted(ranks.size(), "rank") + " here";
  if (ranks.front()->identity.world > 0) {
    text += " of " + std::to_string(ranks.front()->identity.world);
  }
  text += ", " + human_bytes(raw) + " kept as " + human_bytes(stored) + " (" +
          ratio_text(raw, stored) + ")";
  if (slowest != 0) {
    text += ", slowest step " + human_seconds(static_cast<double>(slowest) * 1e-9);
  }
  return text;
}

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
                               human_bytes(f.stored), ratio_text(f.raw, f.stored),
                               human_seconds(static_cast<double>(f.encode_nanoseconds) * 1e-9),
                               human_seconds(static_cast<double>(f.decode_nanoseconds) * 1e-9),
                               f.guard_checks == 0 ? "-" : number_text(f.worst_relative_error),
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

std::vector<ScreenLine> details_of(const Run& run, int width, bool unicode, bool per_codec) {
  std::vector<ScreenLine> lines;
  const auto add = [&](const std::string& text, Look look = Look::plain) {
    lines.push_back({fit(text, width), look});
  };
  const auto& who = run.identity;
  std::string title = "process " + std::to_string(run.process.pid) + ", " + state_of(run);
  if (who.rank >= 0) {
    title += ", rank " + std::to_string(who.rank) + " of " + std::to_string(who.world) + ", job " +
             telemetry::job_of(run);
  }
  add(title, Look::title);
  if (!run.note.empty()) add(run.note, Look::bad);
  add(string_of(who.command));
  add("policy " + string_of(who.policy) + ", torch " + string_of(who.torch));
  if (!run.live) {
    add("no step yet");
    return lines;
  }
  const auto& l = *run.live;
  const double share = share_in_cinch(run);
  add("step " + std::to_string(l.steps) + ", " + step_time_of(run) + " each, " +
      human_seconds(static_cast<double>(l.nanoseconds_in_cinch) * 1e-9) + " in Cinch" +
      (share < 0 ? "" : ", lately " + percent(share)));
  add("at the peak: " + human_bytes(l.raw_at_peak) + " kept as " + human_bytes(l.stored_at_peak) +
      " (" + ratio_text(l.raw_at_peak, l.stored_at_peak) + ")" +
      (l.held_elsewhere_at_peak == 0
           ? ""
           : ", " + human_bytes(l.held_elsewhere_at_peak) + " more held by the program itself"));
  if (run.rss != 0) {
    add("process: " + human_bytes(run.rss) + " resident, at most " + human_bytes(run.peak_rss));
  }
  for (const auto& d : run.devices) {
    add(device_name(d) + ": " + human_bytes(d.allocated) + " allocated of " +
        human_bytes(d.reserved) + " reserved, " + percent(fragmentation_of(d)) +
        " of it unused; at most " + human_bytes(d.peak_allocated) + " of " +
        human_bytes(d.peak_reserved));
  }
  if (l.pinned_reserved != 0) {
    add("offloaded: " + human_bytes(l.offloaded) + ", in " + human_bytes(l.pinned) + " of " +
        human_bytes(l.pinned_reserved) + " page-locked memory of the host");
  }
  if (l.rescues != 0) {
    add("memory ran out " + std::to_string(l.rescues) + " times: " + human_bytes(l.rescued) +
        " were freed by compressing" +
        (l.rescued_by_offload == 0
             ? ""
             : ", " + human_bytes(l.rescued_by_offload) + " by moving to the host"));
  }
  if (l.given_by_others != 0) {
    add("memory ran out and other processes gave back " + human_bytes(l.given_by_others));
  }
  add("");
  const int spark = std::clamp(width - 30, 8, 60);
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
    add(std::string(kind.name) + ' ' + sparkline(values, spark, unicode) + "  at most " +
        (kind.time ? human_seconds(most * 1e-9) : human_bytes(static_cast<std::uint64_t>(most))));
  }
  add("");
  add(per_codec ? "by codec (sums since the start)" : "by operator (sums since the start)",
      Look::title);
  bool first = true;
  for (const auto& line : op_table(per_codec ? by_codec(run) : by_size(run), per_codec)) {
    add(line, first ? Look::header : Look::plain);
    first = false;
  }
  if (run.rows_dropped != 0) {
    add("and " + counted(run.rows_dropped, "row") + " that found no room", Look::dim);
  }
  if (!run.events.empty()) {
    add("");
    add("events, latest first", Look::title);
    for (auto it = run.events.rbegin(); it != run.events.rend(); ++it) {
      add("step " + std::to_string(it->step) + ": " +
          (it->kind == telemetry::EventKind::guard ? "guard: " : "") + string_of(it->text));
    }
    if (run.events_dropped != 0) {
      add("and " + counted(run.events_dropped, "earlier event"), Look::dim);
    }
  }
  return lines;
}

const char* const help_lines[] = {
    "  up, down, k, j        choose a process; scroll its details",
    "  page up, page down    ten at a time",
    "  enter                 details of the process",
    "  escape                back; forget the filter",
    "  c                     details by operator or by codec",
    "  s                     sort by the next column",
    "  r                     sort the other way round",
    "  /                     show only what matches: command, policy, job or number",
    "  p, space              pause",
    "  h, ?                  this help",
    "  q                     quit",
    "",
    "  RAW, STORED  activations at the peak, and what the stash held for them",
    "  CINCH        share of the last steps' time that the program spent in Cinch",
    "  GUARD        classes of tensors that the guard has had held more precisely",
    "  FRAG         share of the allocator's reserved memory that nothing uses",
};

}  // namespace

std::string sparkline(const std::vector<double>& values, int width, bool unicode) {
  static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* plain[] = {".", ":", "-", "=", "+", "*", "#", "@"};
  const auto& bars = unicode ? blocks : plain;
  if (width <= 0 || values.empty()) return "";
  const std::size_t count = std::min(values.size(), static_cast<std::size_t>(width));
  const double most = std::max(
      *std::max_element(values.end() - static_cast<std::ptrdiff_t>(count), values.end()), 0.0);
  std::string text;
  for (std::size_t i = values.size() - count; i < values.size(); ++i) {
    const double share = most > 0 ? std::clamp(values[i] / most, 0.0, 1.0) : 0;
    text += bars[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return text;
}

Screen::Screen(const Options& options) : options_(options) {
  if (options_.pid) view_ = View::details;
}

void Screen::update(std::vector<Run> runs) {
  if (paused_) return;
  runs_ = std::move(runs);
  if (options_.pid) {
    std::erase_if(runs_, [this](const Run& run) { return run.process.pid != *options_.pid; });
  }
}

std::vector<const Run*> Screen::shown() const {
  std::vector<const Run*> chosen;
  for (const Run& run : runs_) {
    const std::string text = string_of(run.identity.command) + '\n' +
                             string_of(run.identity.policy) + '\n' + telemetry::job_of(run) + '\n' +
                             std::to_string(run.process.pid);
    if (text.find(filter_) != text.npos) chosen.push_back(&run);
  }
  const auto by = [this](const Run& run) -> double {
    const telemetry::LiveFigures live = run.live.value_or(telemetry::LiveFigures{});
    switch (sort_) {
      case Sort::job:
        return 0;
      case Sort::ratio:
        return ratio_of(run);
      case Sort::raw:
        return static_cast<double>(live.raw_at_peak);
      case Sort::stored:
        return static_cast<double>(live.stored_at_peak);
      case Sort::step_time:
        return static_cast<double>(live.step_nanoseconds);
      case Sort::cinch:
        return share_in_cinch(run);
      case Sort::guard:
        return static_cast<double>(live.guard_moves);
    }
    return 0;
  };
  if (sort_ != Sort::job) {
    std::ranges::stable_sort(chosen, [&](const Run* a, const Run* b) { return by(*a) > by(*b); });
  }
  if (reverse_) std::ranges::reverse(chosen);
  return chosen;
}

const Run* Screen::selected() const {
  const auto all = shown();
  const auto it = std::ranges::find_if(
      all, [this](const Run* run) { return selected_ && run->process == *selected_; });
  if (it != all.end()) return *it;
  return all.empty() ? nullptr : all.front();
}

void Screen::select(std::ptrdiff_t by) {
  const auto all = shown();
  if (all.empty()) return;
  const auto at = std::ranges::find(all, selected()) - all.begin();
  const auto to = std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(all) - 1);
  selected_ = all[static_cast<std::size_t>(to)]->process;
}

bool Screen::edit_filter(int key) {
  if (!editing_) return false;
  if (key == enter || key == escape) {
    if (key == escape) filter_.clear();
    editing_ = false;
  } else if (key == backspace) {
    while (!filter_.empty() && !begins_character(filter_.back())) filter_.pop_back();
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= 0x20 && key < 256 && key != 0x7F) {
    filter_ += static_cast<char>(key);
  }
  return true;
}

bool Screen::press(int key) {
  if (edit_filter(key)) return true;
  if (key == 'q' || key == 'Q') return false;
  if (view_ == View::help) {
    view_ = behind_help_;
    return true;
  }
  const int page = 10;
  const auto move = [this](int by) {
    if (view_ == View::details) {
      scroll_ = std::max(0, scroll_ + by);
    } else {
      select(by);
    }
  };
  switch (key) {
    case up:
    case 'k':
      move(-1);
      break;
    case down:
    case 'j':
      move(1);
      break;
    case page_up:
      move(-page);
      break;
    case page_down:
      move(page);
      break;
    case home:
      move(-1'000'000);
      break;
    case end:
      if (view_ == View::table) move(1'000'000);
      break;
    case enter:
      if (view_ == View::table && selected() != nullptr) {
        selected_ = selected()->process;
        view_ = View::details;
        scroll_ = 0;
      }
      break;
    case escape:
    case backspace:
      if (view_ == View::details && !options_.pid) {
        view_ = View::table;
      } else if (view_ == View::table) {
        filter_.clear();
      }
      break;
    case 'c':
      per_codec_ = !per_codec_;
      break;
    case 's':
      sort_ = static_cast<Sort>((static_cast<int>(sort_) + 1) % sorts);
      break;
    case 'r':
      reverse_ = !reverse_;
      break;
    case '/':
      editing_ = view_ == View::table;
      break;
    case 'p':
    case ' ':
      paused_ = !paused_;
      break;
    case 'h':
    case '?':
      behind_help_ = view_;
      view_ = View::help;
      break;
    default:
      break;
  }
  return true;
}

std::string Screen::status(int width) const {
  static constexpr const char* names[] = {"job",       "ratio",         "raw",         "stored",
                                          "step time", "time in Cinch", "guard events"};
  std::string text = "cinch watch: " + counted(shown().size(), "process");
  // "process" has its own plural.
  if (text.ends_with("processs")) text.replace(text.size() - 1, 1, "es");
  if (sort_ != Sort::job || reverse_) {
    text += std::string(", by ") + names[static_cast<int>(sort_)] + (reverse_ ? ", reversed" : "");
  }
  if (editing_ || !filter_.empty()) text += ", filter /" + filter_ + (editing_ ? "_" : "");
  if (paused_) text += ", PAUSED";
  return fit(text, width);
}

std::vector<ScreenLine> Screen::table(int width) const {
  std::vector<ScreenLine> lines;
  const auto chosen = fitting(width);
  lines.push_back({row_text(chosen, width, [](const Column& c) { return std::string(c.header); }),
                   Look::header});
  const auto all = shown();
  const Run* const marked = selected();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string job = telemetry::job_of(*all[i]);
    if (sort_ == Sort::job && (i == 0 || telemetry::job_of(*all[i - 1]) != job)) {
      std::vector<const Run*> ranks;
      for (std::size_t k = i; k < all.size() && telemetry::job_of(*all[k]) == job; ++k) {
        ranks.push_back(all[k]);
      }
      if (ranks.size() > 1 || all[i]->identity.world > 1) {
        lines.push_back({fit(job_line(ranks), width), Look::title});
      }
    }
    lines.push_back({row_text(chosen, width,
                              [&](const Column& c) { return c.cell(*all[i], options_.unicode); }),
                     all[i] == marked ? Look::selected : look_of(*all[i])});
  }
  if (all.empty()) {
    lines.push_back(
        {fit(runs_.empty() ? "no program of yours is training under Cinch: start one with cinch run"
                           : "nothing matches the filter",
             width),
         Look::dim});
  }
  return lines;
}

std::vector<ScreenLine> Screen::details(const Run& run, int width) const {
  return details_of(run, width, options_.unicode, per_codec_);
}

std::vector<ScreenLine> Screen::frame(int width, int height) const {
  std::vector<ScreenLine> lines = {{status(width), Look::title}};
  std::vector<ScreenLine> body;
  std::size_t fixed = 0;  // lines of the body that do not scroll
  std::size_t focus = 0;  // the line that has to be seen
  if (view_ == View::help) {
    for (const char* line : help_lines) body.push_back({fit(line, width), Look::plain});
  } else if (view_ == View::details) {
    if (const Run* run = selected()) {
      body = details(*run, width);
    } else {
      body.push_back({fit("the process is not there (any more)", width), Look::dim});
    }
  } else {
    body = table(width);
    fixed = 1;
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body[i].look == Look::selected) focus = i;
    }
  }
  const auto room = static_cast<std::size_t>(std::max(1, height - 2));
  std::size_t from = fixed;
  if (view_ == View::details) {
    const std::size_t most = body.size() > room ? body.size() - room : 0;
    from = std::min(static_cast<std::size_t>(scroll_), most);
  } else if (focus >= room) {
    from = focus - room + 1 + fixed;
  }
  for (std::size_t i = 0; i < fixed; ++i) lines.push_back(body[i]);
  for (std::size_t i = from; i < body.size() && lines.size() < room + 1; ++i) {
    lines.push_back(body[i]);
  }
  lines.resize(room + 1);
  lines.push_back(
      {fit(view_ == View::help      ? "any key: back   q: quit"
           : view_ == View::details ? "esc: back   c: codecs   p: pause   h: help   q: quit"
                                    : "enter: details   s: sort   /: filter   p: pause "
                                      "  h: help   q: quit",
           width),
       Look::dim});
  return lines;
}

std::string plain_text(const std::vector<Run>& runs, bool with_details) {
  std::string text;
  if (runs.empty()) return "no program of yours is training under Cinch\n";
  if (!with_details) {
    std::vector<std::string> header = {"job"};
    for (const Column& column : columns()) {
      if (column.width == spark_width) continue;
      header.push_back((column.right ? ">" : "") + std::string(column.header));
      std::ranges::transform(header.back(), header.back().begin(),
                             [](unsigned char c) { return std::tolower(c); });
    }
    Table table(header);
    for (const Run& run : runs) {
      std::vector<std::string> cells = {telemetry::job_of(run)};
      for (const Column& column : columns()) {
        if (column.width != spark_width) cells.push_back(fit(column.cell(run, false), unlimited));
      }
      table.add(std::move(cells));
    }
    return table.render("");
  }
  for (const Run& run : runs) {
    for (const bool per_codec : {false, true}) {
      const auto lines = details_of(run, 200, false, per_codec);
      // The second time only the table is new.
      auto line = lines.begin();
      if (per_codec) {
        line = std::ranges::find_if(
            lines, [](const ScreenLine& l) { return l.text.starts_with("by codec"); });
        if (line != lines.end()) text += '\n';
      }
      for (; line != lines.end(); ++line) {
        if (per_codec && line->text.empty()) break;
        text += line->text + '\n';
      }
    }
  }
  return text;
}

}  // namespace cinch::cli
