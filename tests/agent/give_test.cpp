// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/give.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/broker.h"
#include "agent/telemetry/agent_post.h"
#include "agent/telemetry/control.h"
#include "agent/telemetry/writer.h"
#include "tests/agent/own_directory.h"

namespace cinch::telemetry {
namespace {

namespace fs = std::filesystem;
using daemon::Broker;
using daemon::Giver;
using daemon::givers;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

constexpr double patience = 60;  // nothing here waits for it
constexpr const char* gpu = "GPU-00000000-0000-0000-0000-000000000001";

class GiveTest : public OwnDirectoryTest {
 protected:
  std::unique_ptr<Control> create() const {
    std::string error;
    auto control = Control::create(directory_, own_process(), error);
    EXPECT_NE(control, nullptr) << error;
    return control;
  }

  // A process that has `idle` bytes of its device `index`, which is `gpu`, and gives them when it
  // is asked, until it is killed.
  pid_t start_giver(std::int64_t index, std::uint64_t idle) const {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      std::string error;
      const auto writer = Writer::create(directory_, own_identity("division", "2.11"), error);
      const auto control = Control::create(directory_, own_process(), error);
      DeviceFigures figures{index, 1000, 1000, 1000 + idle, 1000 + idle, {}};
      figures.name.assign(gpu);
      writer->set_device(figures);
      EXPECT_EQ(write(ready[1], "r", 1), 1);
      for (std::uint64_t seen = 0;;) {
        const std::uint64_t asked = control->asked_to_give();
        if (asked == seen) {
          control->sleep_until_asked_to_give(seen);
          continue;
        }
        seen = asked;
        const bool mine = control->device_to_give() == static_cast<std::uint64_t>(index);
        control->gave(asked, mine ? std::exchange(idle, 0) : 0);
      }
    }
    char c = 0;
    EXPECT_EQ(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
};

TEST_F(GiveTest, OneAgentHasThePost) {
  std::string error;
  auto post = AgentPost::take(directory_, error);
  ASSERT_NE(post, nullptr) << error;
  struct stat info;
  ASSERT_EQ(stat(agent_path(directory_).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(AgentPost::take(directory_, error), nullptr);
  EXPECT_EQ(error, "");
  post.reset();
  EXPECT_FALSE(fs::exists(agent_path(directory_)));
  EXPECT_NE(AgentPost::take(directory_, error), nullptr) << error;
}

TEST_F(GiveTest, ThePostOfAKilledAgentIsFree) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t agent = fork();
  if (agent == 0) {
    std::string error;
    const auto post = AgentPost::take(directory_, error);
    EXPECT_EQ(write(ready[1], "r", 1), 1);
    for (;;) pause();
  }
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  EXPECT_TRUE(AgentBell(directory_).alive());
  end(agent);
  EXPECT_TRUE(fs::exists(agent_path(directory_)));
  EXPECT_FALSE(AgentBell(directory_).alive());
  std::string error;
  EXPECT_NE(AgentPost::take(directory_, error), nullptr) << error;
}

TEST_F(GiveTest, NobodyRingsWhereThereIsNoAgent) {
  EXPECT_FALSE(AgentBell(directory_).alive());
  // Nor one of another version, nor what others could read.
  std::string error;
  const auto post = AgentPost::take(directory_, error);
  ASSERT_NE(post, nullptr);
  EXPECT_TRUE(AgentBell(directory_).alive());
  chmod(agent_path(directory_).c_str(), 0644);
  EXPECT_FALSE(AgentBell(directory_).alive());
  chmod(agent_path(directory_).c_str(), 0600);
  const std::uint64_t version = AgentBlock::version_value + 1;
  const int file = open(agent_path(directory_).c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(pwrite(file, &version, 8, offsetof(AgentBlock, version)), 8);
  close(file);
  EXPECT_FALSE(AgentBell(directory_).alive());
}

TEST_F(GiveTest, TheBellWakesTheAgent) {
  std::string error;
  const auto post = AgentPost::take(directory_, error);
  ASSERT_NE(post, nullptr);
  const std::uint64_t before = post->rung();
  auto woken = std::async(std::launch::async, [&] {
    while (post->rung() == before) post->wait(before, 1'000'000'000'000);
  });
  AgentBell bell(directory_);
  ASSERT_TRUE(bell.alive());
  bell.ring();
  woken.get();
}

TEST_F(GiveTest, AsksAndIsTold) {
  const auto control = create();
  for (std::uint64_t i = 1; i < 4; ++i) {
    auto given = std::async(std::launch::async,
                            [&] { return ask_to_give(directory_, own_process(), 7, patience); });
    while (control->asked_to_give() == i - 1) control->sleep_until_asked_to_give(i - 1);
    EXPECT_EQ(control->device_to_give(), 7u);
    control->gave(control->asked_to_give(), 100 * i);
    EXPECT_EQ(given.get(), 100 * i);
  }
  // Beside what cinch ctl asks for, which is not in the way.
  EXPECT_FALSE(control->asked());
}

TEST_F(GiveTest, WaitsForNobodyForEver) {
  EXPECT_EQ(ask_to_give(directory_, own_process(), 0, patience), std::nullopt) << "does not listen";
  const auto control = create();
  EXPECT_EQ(ask_to_give(directory_, own_process(), 0, 0.01), std::nullopt);
  // An answer that comes too late belongs to no later question.
  control->gave(1, 5);
  EXPECT_EQ(ask_to_give(directory_, own_process(), 0, 0.01), std::nullopt);
  const pid_t dying = start_giver(0, 1);
  const auto process =
      ProcessKey{geteuid(), static_cast<std::uint64_t>(dying),
                 start_ticks_of(static_cast<std::uint64_t>(dying)), own_process().pid_namespace};
  kill(dying, SIGSTOP);
  auto given =
      std::async(std::launch::async, [&] { return ask_to_give(directory_, process, 0, patience); });
  end(dying);
  EXPECT_EQ(given.get(), std::nullopt);
}

TEST_F(GiveTest, AnswersReachWhoWaits) {
  const auto control = create();
  EXPECT_EQ(control->heard().want, 0u);
  auto woken = std::async(std::launch::async, [&] {
    while (control->heard().want != 3) control->sleep_until_heard(0, 1'000'000'000'000);
    return control->heard().bytes;
  });
  EXPECT_TRUE(answer_want(directory_, own_process(), 3, 42));
  EXPECT_EQ(woken.get(), 42u);
  control->remove();
  EXPECT_FALSE(answer_want(directory_, own_process(), 4, 42));
}

Run run_with(std::uint64_t pid, std::vector<DeviceFigures> devices) {
  Run run;
  run.process = {1000, pid, pid, 1};
  run.state = RunState::running;
  run.devices = std::move(devices);
  return run;
}

DeviceFigures device(std::int64_t index, const char* name, std::uint64_t idle) {
  DeviceFigures figures{index, 10, 10, 10 + idle, 10 + idle, {}};
  figures.name.assign(name);
  return figures;
}

TEST(Givers, AreThoseOnTheSameDeviceByItsName) {
  std::vector<telemetry::Run> runs = {
      run_with(1, {device(0, "GPU-a", 0), device(1, "GPU-b", 500)}),
      run_with(2, {device(-1, "", 900), device(0, "GPU-b", 100)}),  // sees only the second one
      run_with(3, {device(0, "GPU-a", 900)}),
      run_with(4, {device(1, "GPU-b", 300)}),
      run_with(5, {device(1, "GPU-b", 800)}),
      run_with(6, {device(-1, "", 800)}),
  };
  runs[4].state = RunState::gone;
  Want want;
  want.device.assign("GPU-b");
  runs[0].want = want;
  const auto is = [](std::size_t run, std::uint64_t index) {
    return testing::AllOf(Field(&Giver::run, run), Field(&Giver::device, index));
  };
  EXPECT_THAT(givers(runs, 0), ElementsAre(is(3, 1), is(1, 0)));
  // Where no name is known, none is the same.
  runs[0].want->device.assign("");
  EXPECT_THAT(givers(runs, 0), IsEmpty());
}

TEST_F(GiveTest, TheAgentAsksTheOthersUntilItIsEnough) {
  // Devices are counted otherwise in each process.
  const pid_t much = start_giver(3, 700);
  const pid_t some = start_giver(0, 500);
  const Broker broker(directory_);
  while (!AgentBell(directory_).alive()) std::this_thread::yield();
  std::string error;
  const auto writer = Writer::create(directory_, own_identity("division", "2.11"), error);
  const auto control = create();
  AgentBell bell(directory_);
  std::uint64_t number = 0;
  const auto ask = [&](std::uint64_t bytes) {
    Want want{++number, monotonic_now(), bytes, {}};
    want.device.assign(gpu);
    writer->set_want(want);
    bell.ring();
    while (control->heard().want != number) {
      control->sleep_until_heard(number - 1, 1'000'000'000);
    }
    return control->heard().bytes;
  };
  EXPECT_EQ(ask(600), 700u) << "the one with the most is enough";
  EXPECT_EQ(ask(400), 500u);
  EXPECT_EQ(ask(1), 0u) << "nobody has anything left";
  end(much);
  EXPECT_EQ(ask(1), 0u);
  end(some);
  EXPECT_EQ(ask(1), 0u);
  writer->remove();
  control->remove();
}

TEST_F(GiveTest, TheAgentSaysWhyItCannotAsk) {
  // Somebody else has the name: in /dev/shm everybody can.
  const std::string path = agent_path(directory_);
  std::ofstream(path) << "theirs";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  std::mutex mutex;
  std::vector<std::string> told;
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return told.size();
  };
  const Broker broker(directory_, [&](const std::string& fault) {
    const std::lock_guard lock(mutex);
    told.push_back(fault);
  });
  while (count() < 1) std::this_thread::yield();
  EXPECT_THAT(told[0], testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("private")));
  std::filesystem::remove(path);
  while (count() < 2) std::this_thread::yield();
  EXPECT_EQ(told[1], "") << "a later look succeeds";
}

TEST_F(GiveTest, TheNextAgentTakesOver) {
  auto first = std::make_unique<Broker>(directory_);
  while (!AgentBell(directory_).alive()) std::this_thread::yield();
  const Broker second(directory_);
  first.reset();
  while (!AgentBell(directory_).alive()) std::this_thread::yield();
}

}  // namespace
}  // namespace cinch::telemetry
