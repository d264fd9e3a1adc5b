// SPDX-License-Identifier: Apache-2.0
// GCC 12 warns about std::regex, which valijson uses, under sanitizers (GCC bug 105562).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
// Frames of `cinch watch` against tests/agent/golden/; CINCH_UPDATE_GOLDEN=1 writes them anew.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "agent/cli/watch/facts.h"
#include "agent/cli/watch/json.h"
#include "agent/cli/watch/plain.h"
#include "agent/cli/watch/screen.h"

namespace cinch::cli {
namespace {

using telemetry::EventKind;
using telemetry::RunState;
using testing::HasSubstr;
using testing::Not;
using Read = telemetry::Run;

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t second = 1'000'000'000;

Read training(std::uint64_t pid) {
  Read run;
  run.process = {1000, pid, 5, 6};
  run.state = RunState::running;
  run.identity.pid = pid;
  run.identity.policy.assign("division");
  run.identity.torch.assign("2.11.0");
  run.identity.command.assign("python train.py --epochs 3");
  run.identity.created_realtime = 1'790'000'000 * second;
  run.read_at = 1000 * second;
  run.rss = 500 * mib;
  run.peak_rss = 861 * mib;
  telemetry::LiveFigures live;
  live.heartbeat = 999 * second;
  live.steps = 60;
  live.boundaries = 60;
  live.step_nanoseconds = second / 4;
  live.raw = 400 * mib;
  live.stored = 35 * mib;
  live.raw_at_peak = 412 * mib;
  live.stored_at_peak = 36 * mib;
  live.nanoseconds_in_cinch = 3 * second;
  live.guard_checks = 12;
  live.guard_moves = 1;
  run.live = live;
  run.devices = {{-1, 300 * mib, 700 * mib, 400 * mib, 750 * mib}};
  run.rows = {
      {"aten::relu", "result", "sign", {60, 640 * mib, 20 * mib, 5 * second / 10, 0, 0, 0, 0, 0}},
      {"aten::convolution",
       "input",
       "division 2-bit",
       {120, 2000 * mib, 180 * mib, second, second / 2, 12, 1, 0.21, 0.4}},
      {"aten::convolution", "input", "sign", {60, 100 * mib, 4 * mib, 0, 0, 0, 0, 0, 0}}};
  for (std::uint64_t i = 1; i <= 30; ++i) {
    run.history.push_back({i, (960 + i) * second, 30 + i, second / 4 + i * 1'000'000, 412 * mib,
                           (20 + i % 17) * mib, i * second / 10, 300 * mib, 400 * mib});
  }
  telemetry::Event event;
  event.number = 1;
  event.time = 970 * second;
  event.step = 41;
  event.kind = EventKind::guard;
  event.text.assign("aten::convolution input: values off by 1.2");
  run.events = {event};
  return run;
}

std::vector<Read> several() {
  std::vector<Read> runs;
  for (int rank = 0; rank < 2; ++rank) {
    Read run = training(200 + static_cast<std::uint64_t>(rank));
    run.identity.rank = rank;
    run.identity.world = 2;
    run.identity.job.assign("job7");
    run.live->step_nanoseconds += static_cast<std::uint64_t>(rank) * second;
    runs.push_back(run);
  }
  Read alone = training(300);
  alone.identity.command.assign("python other.py");
  alone.live->raw_at_peak *= 3;
  alone.live->heartbeat = 900 * second;
  alone.devices = {{0, 600 * mib, 700 * mib, 800 * mib, 900 * mib}, {-1, 1, 1, 1, 1}};
  runs.push_back(alone);
  Read gone = training(301);
  gone.state = RunState::gone;
  runs.push_back(gone);
  Read early;
  early.process = {1000, 302, 5, 6};
  early.state = RunState::starting;
  runs.push_back(early);
  Read newer;
  newer.process = {1000, 303, 5, 6};
  newer.state = RunState::foreign;
  newer.note = "found telemetry layout 2, this cinch reads 1: use the cinch that runs it";
  runs.push_back(newer);
  return runs;
}

std::string text_of(const std::vector<ScreenLine>& frame) {
  static constexpr const char* marks[] = {"  ", "T ", "H ", "> ", ". ", "! "};
  std::string text;
  for (const ScreenLine& line : frame) {
    std::string whole = marks[static_cast<std::size_t>(line.look)] + line.text;
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + '\n';
  }
  return text;
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GOLDEN_DIRECTORY) + '/' + name + ".txt";
  if (std::getenv("CINCH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << path;
}

int width_of(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(WatchScreen, TableWide) {
  Screen screen({});
  screen.update(several());
  expect_golden("table_200", text_of(screen.frame(200, 12)));
}

TEST(WatchScreen, TableOnAnEightyColumnTerminalWithoutUnicode) {
  Screen screen({.unicode = false, .pid = {}});
  screen.update(several());
  expect_golden("table_80", text_of(screen.frame(80, 12)));
}

TEST(WatchScreen, NothingRuns) {
  Screen screen({});
  screen.update({});
  expect_golden("nothing", text_of(screen.frame(80, 6)));
  EXPECT_TRUE(screen.press(Screen::enter));
  EXPECT_TRUE(screen.press(Screen::down));
}

TEST(WatchScreen, Details) {
  Screen screen({.unicode = true, .pid = 300});
  screen.update(several());
  expect_golden("details", text_of(screen.frame(100, 30)));
  screen.press('c');
  expect_golden("details_by_codec", text_of(screen.frame(100, 30)));
}

TEST(WatchScreen, DetailsTellWhatIsOnTheHost) {
  auto runs = several();
  runs[2].live->offloaded = 90 * mib;
  runs[2].live->pinned = 96 * mib;
  runs[2].live->pinned_reserved = 128 * mib;
  runs[2].live->rescues = 2;
  runs[2].live->rescued = mib;
  runs[2].live->rescued_by_offload = 40 * mib;
  Screen screen({.unicode = true, .pid = 300});
  screen.update(runs);
  const std::string text = text_of(screen.frame(120, 30));
  EXPECT_THAT(text, HasSubstr("offloaded: 90.0 MiB, in 96.0 MiB of 128.0 MiB page-locked memory"));
  EXPECT_THAT(text, HasSubstr("memory ran out 2 times: 1.0 MiB were freed by compressing, "
                              "40.0 MiB by moving to the host"));
}

TEST(WatchScreen, Help) {
  Screen screen({});
  screen.update(several());
  screen.press('?');
  expect_golden("help", text_of(screen.frame(80, 24)));
  screen.press('x');
  EXPECT_THAT(text_of(screen.frame(80, 24)), HasSubstr("STORED"));
}

TEST(WatchScreen, EveryFrameFitsItsTerminal) {
  for (const bool details : {false, true}) {
    Screen screen(
        {.unicode = true, .pid = details ? std::optional<std::uint64_t>(300) : std::nullopt});
    screen.update(several());
    for (int width = 1; width <= 220; width += 3) {
      for (const int height : {3, 5, 24, 60}) {
        const auto frame = screen.frame(width, height);
        EXPECT_EQ(frame.size(), static_cast<std::size_t>(height));
        for (const auto& line : frame) EXPECT_LE(width_of(line.text), width) << line.text;
      }
    }
  }
}

TEST(WatchScreen, EnterShowsWhatIsSelected) {
  Screen screen({});
  screen.update(several());
  screen.press(Screen::down);
  screen.press(Screen::down);
  screen.press(Screen::enter);
  EXPECT_THAT(text_of(screen.frame(100, 30)), HasSubstr("process 300, idle 1m"));
  screen.press(Screen::escape);
  EXPECT_THAT(text_of(screen.frame(100, 30)), HasSubstr("RANK"));
}

TEST(WatchScreen, TheSelectedProcessStaysSelectedWhenOthersCome) {
  Screen screen({});
  auto runs = several();
  screen.update({runs[2]});
  screen.press(Screen::down);
  screen.update(runs);
  screen.press(Screen::enter);
  EXPECT_THAT(text_of(screen.frame(100, 30)), HasSubstr("process 300"));
}

TEST(WatchScreen, SortsFiltersAndPauses) {
  Screen screen({});
  screen.update(several());
  screen.press('s');  // ratio: process 300 has the best
  const auto sorted = screen.frame(80, 20);
  EXPECT_THAT(sorted[0].text, HasSubstr("by ratio"));
  EXPECT_THAT(sorted[2].text, HasSubstr("300"));
  screen.press('r');
  EXPECT_THAT(screen.frame(80, 20)[2].text, Not(HasSubstr(" 300 ")));
  for (const char c : std::string("/other")) screen.press(c);
  screen.press(Screen::enter);
  EXPECT_THAT(screen.frame(80, 20)[0].text,
              HasSubstr("1 process, by ratio, reversed, filter /other"));
  screen.press('p');
  screen.update({});
  EXPECT_THAT(screen.frame(80, 20)[0].text, HasSubstr("1 process,"));
  EXPECT_THAT(screen.frame(80, 20)[0].text, HasSubstr("PAUSED"));
  screen.press('p');
  screen.update({});
  EXPECT_THAT(screen.frame(80, 20)[0].text, HasSubstr("0 processes"));
  EXPECT_FALSE(screen.press('q'));
}

TEST(WatchScreen, TheLettersOfAFilterAreNoCommands) {
  Screen screen({});
  screen.update(several());
  for (const char c : std::string("/qq")) EXPECT_TRUE(screen.press(c));
  EXPECT_THAT(screen.frame(80, 20)[0].text, HasSubstr("filter /qq_"));
  screen.press(Screen::backspace);
  EXPECT_THAT(screen.frame(80, 20)[0].text, HasSubstr("filter /q_"));
  screen.press(Screen::escape);
  EXPECT_THAT(screen.frame(80, 20)[0].text, Not(HasSubstr("filter")));
}

TEST(WatchScreen, WhatACommandLineHoldsCannotSteerTheTerminal) {
  Screen screen({});
  Read run = training(1);
  run.identity.command.assign("python \033[2J\n\x7f");
  screen.update({run});
  for (const auto& line : screen.frame(200, 5)) {
    for (const char c : line.text) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
  }
  run.identity.job.assign("job\033]52;c;AAAA\a\xC2\x9B");
  run.identity.rank = 0;
  run.note = "note\xC2\x9B\033";
  for (const bool with_details : {false, true}) {
    const std::string text = plain_text({run}, with_details);
    for (const char c : text) {
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << text;
    }
    EXPECT_THAT(text, Not(HasSubstr("\xC2\x9B")));
  }
}

TEST(WatchScreen, ManyProcessesScroll) {
  Screen screen({});
  std::vector<Read> runs;
  for (std::uint64_t pid = 1000; pid < 1064; ++pid) runs.push_back(training(pid));
  screen.update(runs);
  for (int i = 0; i < 63; ++i) screen.press(Screen::down);
  const auto frame = screen.frame(80, 10);
  EXPECT_EQ(frame[8].look, ScreenLine::Look::selected);
  EXPECT_THAT(frame[8].text, HasSubstr("1063"));
}

TEST(WatchSparkline, GoesFromZeroToTheMaximum) {
  EXPECT_EQ(sparkline({0, 1, 2, 4, 8}, 10, false), ".:-+@");
  EXPECT_EQ(sparkline({0, 1, 2, 4, 8}, 2, false), "+@");
  EXPECT_EQ(sparkline({0, 8}, 10, true), "▁█");
  EXPECT_EQ(sparkline({0, 0}, 10, false), "..");
  EXPECT_EQ(sparkline({}, 10, true), "");
}

TEST(WatchPlainText, OfAllAndOfOne) {
  expect_golden("plain", plain_text(several(), false));
  expect_golden("plain_one", plain_text({training(200)}, true));
  EXPECT_EQ(plain_text({}, false), "no program of yours is training under Cinch\n");
}

TEST(WatchFacts, OfARunWithoutFigures) {
  const Read none;
  EXPECT_EQ(ratio_of(none), 0);
  EXPECT_LT(share_in_cinch(none), 0);
  EXPECT_EQ(silence_of(none), 0);
  EXPECT_EQ(fragmentation_of(memory_of(none)), 0);
}

TEST(WatchJson, FitsItsSchema) {
  auto runs = several();
  runs[0].identity.command.assign("python \xff.py");  // no UTF-8
  const auto json = nlohmann::json::parse(runs_json(runs));
  std::ifstream file(WATCH_SCHEMA);
  const auto text = nlohmann::json::parse(file);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(text), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter adapter(json);
  EXPECT_TRUE(validator.validate(schema, adapter, &results));
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    for (const auto& at : error.context) ADD_FAILURE() << at;
    ADD_FAILURE() << error.description;
  }
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["runs"][1]["rank"], 1);
  EXPECT_EQ(json["runs"][2]["rank"], nullptr);
  EXPECT_EQ(json["runs"][4]["live"], nullptr);
  EXPECT_DOUBLE_EQ(json["runs"][0]["live"]["ratio"], 412.0 / 36);
  EXPECT_EQ(json["runs"][2]["devices"][0]["device"], "cuda:0");
  EXPECT_DOUBLE_EQ(json["runs"][2]["devices"][0]["fragmentation"], 0.25);
}

}  // namespace
}  // namespace cinch::cli
