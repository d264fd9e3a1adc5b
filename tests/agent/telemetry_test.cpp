// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/telemetry/reader.h"
#include "agent/telemetry/writer.h"
#include "tests/agent/own_directory.h"

namespace cinch::telemetry {
namespace {

namespace fs = std::filesystem;
using Read = Run;  // a test has a Run of its own
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TelemetryTest : public OwnDirectoryTest {
 protected:
  std::unique_ptr<Writer> create(const Identity& identity) {
    std::string error;
    auto writer = Writer::create(directory_, identity, error);
    EXPECT_NE(writer, nullptr) << error;
    return writer;
  }
  std::unique_ptr<Writer> create() { return create(own_identity("division", "2.11.0")); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
};

// Every word is a function of the first, so that a mixture of two shows.
LiveFigures live_of(std::uint64_t n) {
  LiveFigures live;
  auto words = std::bit_cast<std::array<std::uint64_t, sizeof live / 8>>(live);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = n + i;
  return std::bit_cast<LiveFigures>(words);
}
bool is_whole(const LiveFigures& live) {
  return std::memcmp(&live, std::array{live_of(live.heartbeat)}.data(), sizeof live) == 0;
}
RowFigures row_of(std::uint64_t n) {
  return {n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, static_cast<double>(n), 0.5};
}
bool is_whole(const RowFigures& row) {
  const RowFigures whole = row_of(row.count);
  return std::memcmp(&row, &whole, sizeof row) == 0;
}
HistoryPoint point_of(std::uint64_t n) {
  return {0, n, n, n, n, n, n, n, n};
}
bool is_whole(const HistoryPoint& p) {
  return p.time == p.step && p.raw == p.time && p.stored == p.time && p.reserved == p.time;
}

template <typename Step>
void publish_everything(Writer& writer, std::uint64_t n, Step step) {
  const Writer::Turn turn(writer);
  if (!turn) return;
  if (writer.segment().rows_used.load() < 3) {
    RowKey key;
    key.op.assign("aten::relu");
    key.operand.assign("result");
    key.codec.assign("sign");
    writer.add_row(key, step);
  }
  for (std::size_t i = 0; i < writer.segment().rows_used.load(); ++i) {
    writer.set_row(i, row_of(n), step);
  }
  writer.set_device({-1, n, n, n, n}, step);
  writer.add_history(point_of(n), step);
  writer.publish(live_of(n), step);
  writer.event(EventKind::guard, n, "aten::relu held more precisely", step);
}

void expect_whole(const Read& run) {
  EXPECT_TRUE(!run.live || is_whole(*run.live));
  for (const Read::Row& row : run.rows) {
    EXPECT_EQ(row.op, "aten::relu");
    EXPECT_TRUE(is_whole(row.figures));
  }
  for (const HistoryPoint& point : run.history) EXPECT_TRUE(is_whole(point));
  for (const Event& event : run.events)
    EXPECT_STREQ(event.text.chars, "aten::relu held more precisely");
}

TEST_F(TelemetryTest, WhatIsWrittenIsRead) {
  const auto writer = create();
  publish_everything(*writer, 1000, NoStep{});
  const auto runs = read_runs(directory_);
  ASSERT_THAT(runs, SizeIs(1));
  const Read& run = runs[0];
  EXPECT_EQ(run.state, RunState::running) << run.note;
  EXPECT_EQ(run.process, own_process());
  EXPECT_EQ(run.live->heartbeat, 1000u);
  EXPECT_THAT(run.rows, SizeIs(1));
  EXPECT_THAT(run.devices, SizeIs(1));
  EXPECT_THAT(run.history, SizeIs(1));
  EXPECT_THAT(run.events, SizeIs(1));
  EXPECT_GT(run.rss, 0u);
  EXPECT_GE(run.peak_rss, run.rss);
  expect_whole(run);
  writer->remove();
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_THAT(read_runs(directory_), IsEmpty());
}

TEST_F(TelemetryTest, OnlyTheOwnerMayReadIt) {
  const mode_t before = umask(0);
  const auto writer = create();
  umask(before);
  struct stat info;
  ASSERT_EQ(stat((directory_ + '/' + files().at(0)).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(TelemetryTest, RingsForgetTheOldestAndSayHowMany) {
  const auto writer = create();
  for (std::uint64_t i = 1; i <= history_length + 10; ++i) writer->add_history(point_of(i));
  for (std::uint64_t i = 1; i <= events_length + 3; ++i) {
    writer->event(EventKind::message, i, "m");
  }
  const Read run = read_run(directory_, own_process());
  EXPECT_THAT(run.history, SizeIs(history_length));
  EXPECT_EQ(run.history.front().number, 11u);
  EXPECT_EQ(run.history_dropped, 10u);
  EXPECT_THAT(run.events, SizeIs(events_length));
  EXPECT_EQ(run.events_dropped, 3u);
}

TEST_F(TelemetryTest, RowsThatFindNoRoomAreCounted) {
  const auto writer = create();
  for (std::size_t i = 0; i < most_rows; ++i) EXPECT_EQ(writer->add_row({}), i);
  EXPECT_EQ(writer->add_row({}), most_rows);
  writer->set_row(most_rows, row_of(1));
  writer->set_rows_dropped(1);
  EXPECT_EQ(read_run(directory_, own_process()).rows_dropped, 1u);
}

TEST_F(TelemetryTest, TextIsCutBetweenCharacters) {
  Text<8> text;
  text.assign("abcdef\xc3\xa4");
  EXPECT_STREQ(text.chars, "abcdef");
  text.assign("abcde\xc3\xa4z");
  EXPECT_STREQ(text.chars, "abcde\xc3\xa4");
}

// Reads the writer's own mapping, where ThreadSanitizer sees both sides.
TEST_F(TelemetryTest, ReadersSeeWholeValuesWhileWritersHammer) {
  const auto writer = create();
  std::atomic<bool> over{false};
  const auto write = [&](std::uint64_t n) {
    while (!over.load(std::memory_order_relaxed)) publish_everything(*writer, ++n, NoStep{});
  };
  std::thread first(write, 0);
  std::thread second(write, 1'000'000'000);
  const auto* memory = reinterpret_cast<const std::byte*>(&writer->segment());
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 2000 || seen.size() < 2; ++i) {
    const Read run = read_segment({memory, sizeof(Segment)});
    expect_whole(run);
    if (run.live) seen.insert(run.live->heartbeat);
    if (HasFailure()) break;
  }
  over = true;
  first.join();
  second.join();
  EXPECT_GE(seen.size(), 2u);
}

TEST_F(TelemetryTest, AWriterThatStandsStillInTheMiddleIsStaleNotWaitedFor) {
  const auto writer = create();
  writer->publish(live_of(1));
  writer->publish(live_of(2));
  // Both slots as a stopped writer leaves the one that it is at.
  auto& segment = const_cast<Segment&>(writer->segment());
  for (auto& slot : segment.live) reinterpret_cast<Word&>(slot).fetch_or(1);
  const Read run = read_run(directory_, own_process());
  EXPECT_EQ(run.state, RunState::stale);
  EXPECT_THAT(run.note, HasSubstr("being written"));
}

int steps_left = 0;
void kill_at_step() {
  if (steps_left-- == 0) raise(SIGKILL);
}

TEST_F(TelemetryTest, KilledAtEveryStepTheLastWholeFiguresAreLeft) {
  int steps = 0;
  bool killed = true;
  for (; killed; ++steps) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      steps_left = steps;
      std::string error;
      auto writer =
          Writer::create(directory_, own_identity("division", "2.11.0"), error, kill_at_step);
      for (std::uint64_t n = 1; n <= 2; ++n) publish_everything(*writer, n, kill_at_step);
      writer.release();
      _exit(0);
    }
    // Read while it is a zombie, too: it is gone already.
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    const auto runs = read_runs(directory_);
    killed = info.si_code == CLD_KILLED;
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_LE(runs.size(), 1u);
    for (const Read& run : runs) {
      EXPECT_EQ(run.state, RunState::gone);
      EXPECT_TRUE(run.live);
      expect_whole(run);
    }
    // Once it is gone for good, its owner's next look takes it away, whatever it was at.
    EXPECT_THAT(read_runs(directory_, 0), IsEmpty());
    ASSERT_THAT(files(), IsEmpty()) << "killed at step " << steps;
  }
  EXPECT_GT(steps, 100);
}

TEST_F(TelemetryTest, NoSegmentWhereNoneCanBeMade) {
  std::string error;
  const Identity identity = own_identity("division", "2.11.0");
  EXPECT_EQ(Writer::create(directory_ + "/nowhere", identity, error), nullptr);
  EXPECT_THAT(error, HasSubstr("nowhere"));
  EXPECT_EQ(Writer::create("/proc", identity, error), nullptr);
  EXPECT_EQ(Writer::create("/dev/null", identity, error), nullptr);
  EXPECT_THAT(read_runs(directory_ + "/nowhere"), IsEmpty());
}

TEST_F(TelemetryTest, NoSegmentAndNoSignalWhereFilesMayNotBeAsLarge) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &small);
    std::string error;
    const auto writer = Writer::create(directory_, own_identity("division", "2.11.0"), error);
    _exit(writer == nullptr && !error.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(TelemetryTest, AFullFileSystemLeavesNothingBehind) {
  if (mount("none", directory_.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "needs the right to mount a small tmpfs";
  }
  std::string error;
  EXPECT_EQ(Writer::create(directory_, own_identity("division", "2.11.0"), error), nullptr);
  EXPECT_THAT(error, HasSubstr("No space left"));
  EXPECT_THAT(files(), IsEmpty());
  umount(directory_.c_str());
}

TEST_F(TelemetryTest, AnotherLayoutIsRefusedInWords) {
  const auto writer = create();
  writer->publish(live_of(1));
  const_cast<Segment&>(writer->segment()).version.store(layout_version + 1);
  const auto runs = read_runs(directory_);
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].state, RunState::foreign);
  EXPECT_EQ(runs[0].note, "found telemetry layout " + std::to_string(layout_version + 1) +
                              ", this cinch reads " + std::to_string(layout_version) +
                              ": use the cinch that runs it");
  EXPECT_FALSE(runs[0].live);
}

TEST_F(TelemetryTest, DamagedFilesAreRefused) {
  const auto writer = create();
  auto& segment = const_cast<Segment&>(writer->segment());
  segment.rows_used.store(~0ull);
  segment.history_count.store(~0ull);
  segment.event_count.store(1000);
  EXPECT_THAT(read_run(directory_, own_process()).rows, IsEmpty());
  segment.total_bytes.store(17);
  EXPECT_EQ(read_run(directory_, own_process()).state, RunState::unreadable);
  segment.total_bytes.store(sizeof(Segment));
  fs::resize_file(directory_ + '/' + files().at(0), 4096);
  EXPECT_EQ(read_run(directory_, own_process()).state, RunState::unreadable);
  fs::resize_file(directory_ + '/' + files().at(0), 0);
  EXPECT_EQ(read_run(directory_, own_process()).state, RunState::starting);
}

TEST_F(TelemetryTest, ANumberThatIsUsedAgainIsAnotherProcess) {
  Identity earlier = own_identity("division", "2.11.0");
  earlier.start_ticks -= 1;
  const auto theirs = create(earlier);
  theirs->publish(live_of(1));
  const auto mine = create();
  const auto runs = read_runs(directory_, 1e18);
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].state, RunState::gone);
  EXPECT_EQ(runs[1].state, RunState::running);
  EXPECT_EQ(read_runs(directory_, 0).size(), 1u);
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(TelemetryTest, AnEarlierBootsRunIsGone) {
  Identity identity = own_identity("division", "2.11.0");
  identity.boot_id.assign("another");
  const auto writer = create(identity);
  writer->publish(live_of(1));
  EXPECT_EQ(read_run(directory_, own_process()).state, RunState::gone);
}

TEST_F(TelemetryTest, WhoseProcessesCannotBeSeenIsNotCleanedUp) {
  Identity identity = own_identity("division", "2.11.0");
  identity.pid_namespace += 1;
  const auto writer = create(identity);
  writer->publish(live_of(1));
  EXPECT_THAT(read_runs(directory_, 0), SizeIs(1));
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(TelemetryTest, TheFileOfBeforeAnExecIsReplaced) {
  const auto before = create();
  before->publish(live_of(1));
  const auto after = create();
  EXPECT_THAT(files(), SizeIs(1));
  EXPECT_FALSE(read_run(directory_, own_process()).live);
}

TEST_F(TelemetryTest, NobodyElsesFileIsTouched) {
  const ProcessKey self = own_process();
  ProcessKey other = self;
  other.uid += 1;
  other.pid = 1 << 30;  // nobody's
  const std::string names[] = {segment_name(other), "cinch-1-2-3", "something",
                               segment_name(self) + "-5"};
  for (const std::string& name : names) std::ofstream(directory_ + '/' + name) << "theirs";
  // A name of this user's that is no private file of this user's.
  ProcessKey odd = self;
  odd.pid = (1 << 30) + 1;
  fs::create_symlink("something", directory_ + '/' + segment_name(odd));
  read_runs(directory_, 0);
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(directory_ + '/' + name)) << name;
  if (geteuid() == 0) {
    ProcessKey wide = self;
    wide.pid = (1 << 30) + 2;
    const std::string path = directory_ + '/' + segment_name(wide);
    std::ofstream(path) << std::string(100, 'x');
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(read_run(directory_, wide).state, RunState::unreadable);
  }
}

TEST_F(TelemetryTest, SixtyFourRanksAreOneJob) {
  std::vector<std::unique_ptr<Writer>> writers;
  for (int rank = 63; rank >= 0; --rank) {
    Identity identity = own_identity("division", "2.11.0");
    identity.pid += static_cast<std::uint64_t>(rank) + 1;
    identity.pid_namespace += 1;  // or they would be gone
    identity.rank = rank;
    identity.world = 64;
    identity.job.assign("job");
    writers.push_back(create(identity));
    publish_everything(*writers.back(), static_cast<std::uint64_t>(rank), NoStep{});
  }
  const auto runs = read_runs(directory_);
  ASSERT_THAT(runs, SizeIs(64));
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(runs[static_cast<std::size_t>(rank)].identity.rank, rank);
    EXPECT_EQ(job_of(runs[static_cast<std::size_t>(rank)]), "job");
  }
}

TEST_F(TelemetryTest, NamesAreReadAsTheyAreWritten) {
  const ProcessKey key = {1, 2, 3, 4};
  EXPECT_EQ(segment_name(key), "cinch-1-2-3-4");
  EXPECT_EQ(parse_segment_name("cinch-1-2-3-4"), key);
  for (const char* wrong :
       {"", "cinch-", "cinch-1-2-3", "cinch-1-2-3-4-5", "cinch-1-2-3-4x", "cinch-01-2-3-4",
        "cinch-1--2-3", "cinch--1-2-3-4", "cinch-1-2-3-99999999999999999999999"}) {
    EXPECT_EQ(parse_segment_name(wrong), std::nullopt) << wrong;
  }
}

TEST(Process, KnowsItself) {
  const ProcessKey self = own_process();
  EXPECT_EQ(self.pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_NE(self.start_ticks, 0u);
  EXPECT_EQ(life_of(self), Life::alive);
  ProcessKey other = self;
  other.start_ticks += 1;
  EXPECT_EQ(life_of(other), Life::gone);
  EXPECT_THAT(boot_id(), SizeIs(36));
}

}  // namespace
}  // namespace cinch::telemetry
