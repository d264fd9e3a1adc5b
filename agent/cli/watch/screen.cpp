// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/screen.h"

#include <algorithm>

#include "agent/cli/text.h"
#include "agent/cli/watch/columns.h"
#include "agent/cli/watch/details.h"
#include "agent/cli/watch/facts.h"

namespace cinch::cli {
namespace {

using telemetry::Run;
using telemetry::RunState;
using Look = ScreenLine::Look;

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
          human_ratio(raw, stored) + ")";
  if (slowest != 0) {
    text += ", slowest step " + human_seconds(static_cast<double>(slowest) * 1e-9);
  }
  return text;
}

// More lines than there ever are.
constexpr int far = 1'000'000;

/// How many lines a key moves; 0 when it moves none.
int distance_of(int key) {
  constexpr int page = 10;
  switch (key) {
    case Screen::up:
    case 'k':
      return -1;
    case Screen::down:
    case 'j':
      return 1;
    case Screen::page_up:
      return -page;
    case Screen::page_down:
      return page;
    case Screen::home:
      return -far;
    default:
      return 0;
  }
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
    const std::string text = run.identity.command.str() + '\n' + run.identity.policy.str() + '\n' +
                             telemetry::job_of(run) + '\n' + std::to_string(run.process.pid);
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

// Scrolls the details, or chooses another process of the table.
void Screen::move(int by) {
  if (view_ == View::details) {
    scroll_ = std::max(0, scroll_ + by);
  } else {
    select(by);
  }
}

void Screen::open_details() {
  if (view_ != View::table || selected() == nullptr) return;
  selected_ = selected()->process;
  view_ = View::details;
  scroll_ = 0;
}

// To the table; from the table to all processes.
void Screen::go_back() {
  if (view_ == View::details && !options_.pid) {
    view_ = View::table;
  } else if (view_ == View::table) {
    filter_.clear();
  }
}

bool Screen::press(int key) {
  if (edit_filter(key)) return true;
  if (key == 'q' || key == 'Q') return false;
  if (view_ == View::help) {
    view_ = behind_help_;
    return true;
  }
  if (const int by = distance_of(key); by != 0) {
    move(by);
    return true;
  }
  switch (key) {
    case end:  // not in details: how many lines they have is not known here
      if (view_ == View::table) move(far);
      break;
    case enter:
      open_details();
      break;
    case escape:
    case backspace:
      go_back();
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
  std::size_t focus = 0;  // the line that must be visible
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

}  // namespace cinch::cli
