// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/progress.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/cli/program/child.h"
#include "agent/cli/program/relay.h"

namespace cinch::cli {
namespace {

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    winsize size{24, 20, 0, 0};
    ASSERT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    termios modes{};
    tcgetattr(slave_, &modes);
    cfmakeraw(&modes);
    tcsetattr(slave_, TCSANOW, &modes);
  }
  void TearDown() override {
    close(master_);
    close(slave_);
  }

  // What has come to the terminal since the last look.
  std::string seen() const {
    std::string text;
    pollfd ready = {master_, POLLIN, 0};
    while (poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
      char bytes[256];
      const ssize_t count = read(master_, bytes, sizeof bytes);
      if (count <= 0) break;
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return text;
  }

  int master_ = -1;
  int slave_ = -1;
};

TEST_F(ProgressTest, DrawsOneLineAndTakesItAway) {
  setenv("NO_COLOR", "1", 1);
  {
    Progress progress(slave_);
    EXPECT_TRUE(progress.active());
    EXPECT_EQ(seen(), "") << "nothing before there is something to say";
    progress.show("one");
    progress.show("one");
    EXPECT_EQ(seen(), "\r\033[Kone");
    progress.show("two");
    EXPECT_EQ(seen(), "\r\033[Ktwo");
  }
  EXPECT_EQ(seen(), "\r\033[K");
}

TEST_F(ProgressTest, IsDimWhereColourIsWanted) {
  Progress progress(slave_);
  progress.show("one");
  EXPECT_EQ(seen(), "\r\033[K\033[2mone\033[0m");
}

TEST_F(ProgressTest, IsNoWiderThanTheTerminal) {
  setenv("NO_COLOR", "1", 1);
  Progress progress(slave_);
  progress.show("äöüäöüäöüäöüäöüäöüäöüäöü");
  EXPECT_EQ(seen(), "\r\033[Käöüäöüäöüäöüäöüäöüä");
}

TEST_F(ProgressTest, SaysNothingElsewhere) {
  setenv("TERM", "dumb", 1);
  Progress dumb(slave_);
  unsetenv("TERM");
  Progress unknown(slave_);
  setenv("TERM", "xterm", 1);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  {
    Progress piped(ends[1]);
    for (Progress* each : {&dumb, &unknown, &piped}) {
      EXPECT_FALSE(each->active());
      each->show("one");
      each->show_with_time("two");
      each->clear();
      EXPECT_EQ(Relay::open(*each), nullptr);
    }
  }
  char c = 0;
  EXPECT_EQ(seen(), "");
  EXPECT_EQ(read(ends[0], &c, 1), -1);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ProgressTest, StaysBelowWhatAProgramPrints) {
  setenv("NO_COLOR", "1", 1);
  Progress progress(slave_);
  progress.show("one");
  progress.pass("loss 1\n");
  EXPECT_EQ(seen(), "\r\033[Kone\r\033[Kloss 1\n");
  progress.show("one");
  EXPECT_EQ(seen(), "\r\033[Kone");
  // The program's own progress line is not drawn over.
  progress.pass("\r 10 %");
  progress.show("two");
  EXPECT_EQ(seen(), "\r\033[K\r 10 %");
  progress.pass("\r100 %\n");
  progress.show("two");
  EXPECT_EQ(seen(), "\r100 %\n\r\033[Ktwo");
}

TEST_F(ProgressTest, AProgramHasATerminalStill) {
  setenv("NO_COLOR", "1", 1);
  Progress progress(slave_);
  auto relay = Relay::open(progress);
  ASSERT_NE(relay, nullptr);
  progress.show("one");
  Command command{{"sh", "-c", "test -t 1 && test -t 2 && echo out && echo err >&2"}, {}, ""};
  command.output_file = relay->file();
  const ChildResult child = run_child(command);
  EXPECT_EQ(child.status, 0);
  relay.reset();
  EXPECT_EQ(seen(), "\r\033[Kone\r\033[Kout\nerr\n");
}

}  // namespace
}  // namespace cinch::cli
