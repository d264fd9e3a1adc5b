// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/descendant.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cinch::cli {
namespace {

using telemetry::ProcessKey;

/// Forks a process that sleeps, as a grandchild; of an orphan the process between has ended.
/// @return its key
ProcessKey sleeper(bool orphan, pid_t& between) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  between = fork();
  if (between == 0) {
    if (const pid_t pid = fork(); pid == 0) {
      const ProcessKey self = telemetry::own_process();
      [[maybe_unused]] const ssize_t told = write(ends[1], &self, sizeof self);
      for (;;) pause();
    } else if (!orphan) {
      waitpid(pid, nullptr, 0);
    }
    _exit(0);
  }
  ProcessKey key;
  EXPECT_EQ(read(ends[0], &key, sizeof key), static_cast<ssize_t>(sizeof key));
  close(ends[0]);
  close(ends[1]);
  return key;
}

TEST(SignalDescendant, HitsNobodyElse) {
  pid_t between = 0;
  const ProcessKey key = sleeper(false, between);
  ProcessKey other = key;
  other.start_ticks += 1;  // the number was used again
  EXPECT_FALSE(signal_descendant(other, SIGTERM));
  other = key;
  other.pid_namespace += 1;  // the number is a container's
  EXPECT_FALSE(signal_descendant(other, SIGTERM));
  other = key;
  other.start_ticks = 0;  // an older report does not say
  EXPECT_FALSE(signal_descendant(other, SIGTERM));
  EXPECT_FALSE(signal_descendant(telemetry::own_process(), 0)) << "itself is no descendant";
  for (const pid_t pid : {0, -1, 1, static_cast<int>(getppid())}) {
    other.pid = static_cast<std::uint64_t>(pid);
    other.start_ticks = telemetry::start_ticks_of(other.pid);
    EXPECT_FALSE(signal_descendant(other, 0)) << pid;
  }
  EXPECT_EQ(kill(static_cast<pid_t>(key.pid), 0), 0);
  EXPECT_TRUE(signal_descendant(key, SIGTERM)) << "a grandchild is one";
  waitpid(between, nullptr, 0);

  const ProcessKey orphan = sleeper(true, between);
  waitpid(between, nullptr, 0);
  EXPECT_FALSE(signal_descendant(orphan, SIGTERM)) << "its parents no longer lead here";
  kill(static_cast<pid_t>(orphan.pid), SIGKILL);
}

}  // namespace
}  // namespace cinch::cli
