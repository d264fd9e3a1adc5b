// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/telemetry/ask.h"
#include "tests/agent/own_directory.h"

namespace cinch::telemetry {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Outcome = Reply::Outcome;

constexpr double patience = 60;  // nothing here waits for it

class ControlTest : public OwnDirectoryTest {
 protected:
  std::unique_ptr<Control> create() {
    std::string error;
    auto control = Control::create(directory_, self_, error);
    EXPECT_NE(control, nullptr) << error;
    return control;
  }
  std::string path() const { return control_path(directory_, self_); }

  std::future<Reply> ask_aside(Command command, std::string argument, double seconds = patience) {
    return std::async(std::launch::async,
                      [=, this] { return ask(directory_, self_, command, argument, seconds); });
  }
  static Request take(Control& control) {
    for (;;) {
      if (auto request = control.take()) return *request;
      std::this_thread::yield();
    }
  }

  // The segment as another process could write to it.
  ControlBlock* block() const {
    const int file = open(path().c_str(), O_RDWR | O_CLOEXEC);
    void* memory = mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return static_cast<ControlBlock*>(memory);
  }

  const ProcessKey self_ = own_process();
};

TEST_F(ControlTest, IsPrivate) {
  const auto control = create();
  EXPECT_FALSE(control->asked());
  EXPECT_EQ(control->take(), std::nullopt);
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  control->remove();
  control->remove();
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(ControlTest, AsksAndAnswers) {
  const auto control = create();
  for (int i = 0; i < 3; ++i) {
    const std::string argument = std::string("my.json\0{}", 10) + std::to_string(i);
    auto reply = ask_aside(Command::policy, argument);
    const Request request = take(*control);
    EXPECT_EQ(request.command, Command::policy);
    EXPECT_EQ(request.argument, argument);
    EXPECT_FALSE(control->asked());
    control->answer(i != 1, "words " + std::to_string(i));
    const Reply got = reply.get();
    EXPECT_EQ(got.outcome, i == 1 ? Outcome::refused : Outcome::done);
    EXPECT_EQ(got.words, "words " + std::to_string(i));
  }
}

TEST_F(ControlTest, WhoeverAsksAtTheSameTimeComesAfterwards) {
  const auto control = create();
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 8; ++i) replies.push_back(ask_aside(Command::budget, std::to_string(i)));
  for (int i = 0; i < 8; ++i) {
    const Request request = take(*control);
    control->answer(true, request.argument);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(replies[i].get().words, std::to_string(i));
}

TEST_F(ControlTest, WhatNobodyTookIsWithdrawn) {
  const auto control = create();
  EXPECT_EQ(ask(directory_, self_, Command::pause, "", 0).outcome, Outcome::withdrawn);
  EXPECT_FALSE(control->asked());
  EXPECT_EQ(control->take(), std::nullopt);
}

TEST_F(ControlTest, WhatWasTakenStillCounts) {
  const auto control = create();
  auto reply = ask_aside(Command::policy, "x", 0.2);
  take(*control);
  EXPECT_EQ(reply.get().outcome, Outcome::waiting);
  EXPECT_EQ(ask(directory_, self_, Command::pause, "", 0).outcome, Outcome::withdrawn)
      << "the first one comes first";
  control->answer(true, "late");
  auto next = ask_aside(Command::pause, "");
  EXPECT_EQ(take(*control).command, Command::pause);
  control->answer(true, "next");
  EXPECT_EQ(next.get().words, "next");
}

TEST_F(ControlTest, WhatADeadAskerLeftIsWithdrawn) {
  const auto control = create();
  const pid_t child = fork();
  if (child == 0) {
    ask(directory_, self_, Command::pause, "", patience);
    _exit(0);
  }
  while (!control->asked()) std::this_thread::yield();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  auto next = ask_aside(Command::resume, "");
  Request request = take(*control);
  // Taken before the second asker came, the first one's would be carried out.
  if (request.command == Command::pause) {
    control->answer(true, "");
    request = take(*control);
  }
  EXPECT_EQ(request.command, Command::resume);
  control->answer(true, "resumed");
  EXPECT_EQ(next.get().words, "resumed");
}

TEST_F(ControlTest, ALongPolicyIsRefusedAtOnce) {
  const auto control = create();
  const std::string most(ControlBlock::most_argument_bytes, 'x');
  const Reply reply = ask(directory_, self_, Command::policy, most + 'x', patience);
  EXPECT_EQ(reply.outcome, Outcome::refused);
  EXPECT_THAT(reply.words, HasSubstr("at most"));
  auto longest = ask_aside(Command::policy, most);
  EXPECT_EQ(take(*control).argument, most);
  control->answer(true, "");
  EXPECT_EQ(longest.get().outcome, Outcome::done);
}

TEST_F(ControlTest, NothingInTheSegmentIsBelieved) {
  const auto control = create();
  ControlBlock* hostile = block();
  hostile->command.store(1);
  hostile->argument_bytes.store(UINT64_MAX);
  hostile->state.store(ControlBlock::asked);
  EXPECT_EQ(control->take(), std::nullopt);
  EXPECT_EQ(hostile->state.load(), std::uint64_t{ControlBlock::answered});
  EXPECT_EQ(hostile->done.load(), 0u);
  hostile->argument_bytes.store(0);
  for (const std::uint64_t command : {std::uint64_t{0}, std::uint64_t{7}, UINT64_MAX}) {
    hostile->command.store(command);
    hostile->state.store(4 | ControlBlock::asked);
    EXPECT_EQ(control->take(), std::nullopt);
    EXPECT_EQ(hostile->done.load(), 0u);
  }
  munmap(hostile, sizeof(ControlBlock));
}

TEST_F(ControlTest, OthersFilesAreNotOpened) {
  EXPECT_EQ(ask(directory_, self_, Command::pause, "", 0).outcome, Outcome::unreachable);
  const auto control = create();
  chmod(path().c_str(), 0666);
  EXPECT_THAT(ask(directory_, self_, Command::pause, "", 0).words, HasSubstr("private"));
  chmod(path().c_str(), 0600);
  ControlBlock* other = block();
  other->version.store(ControlBlock::version_value + 1);
  EXPECT_THAT(ask(directory_, self_, Command::pause, "", 0).words, HasSubstr("version"));
  munmap(other, sizeof(ControlBlock));
  fs::resize_file(path(), 128);
  EXPECT_THAT(ask(directory_, self_, Command::pause, "", 0).words, HasSubstr("version"));
  control->remove();
  fs::create_symlink("/dev/null", path());
  EXPECT_EQ(ask(directory_, self_, Command::pause, "", 0).outcome, Outcome::unreachable);
}

TEST_F(ControlTest, AProcessThatEndsDoesNotLetAskersWait) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string error;
    const auto control = Control::create(directory_, own_process(), error);
    const char c = control == nullptr ? 0 : 1;
    if (write(ready[1], &c, 1) != 1) _exit(1);
    while (!control->take()) usleep(1000);
    raise(SIGKILL);
  }
  char made = 0;
  ASSERT_EQ(read(ready[0], &made, 1), 1);
  ASSERT_EQ(made, 1);
  const auto pid = static_cast<std::uint64_t>(child);
  const ProcessKey process = {self_.uid, pid, start_ticks_of(pid), self_.pid_namespace};
  const Reply reply = ask(directory_, process, Command::empty_cache, "", patience);
  EXPECT_EQ(reply.outcome, Outcome::unreachable);
  EXPECT_EQ(reply.words, "the process ended");
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ask(directory_, process, Command::empty_cache, "", patience).outcome,
            Outcome::unreachable);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace cinch::telemetry
