// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/side_thread.h"

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {
namespace {

using Job = SideThread::Job;

/// Notes whose jobs were done; holds each until it is let go.
struct Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const Entry*> done;
  int let_go = 0;
  bool signals_blocked = false;

  static void work(void* self, const Job& job) noexcept {
    auto& worker = *static_cast<Worker*>(self);
    std::unique_lock lock(worker.mutex);
    worker.changed.wait(lock, [&] { return worker.let_go > 0; });
    --worker.let_go;
    worker.done.push_back(job.entry);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    worker.signals_blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGCHLD) == 1;
  }
  void allow(int jobs) {
    const std::lock_guard lock(mutex);
    let_go += jobs;
    changed.notify_all();
  }
};

TEST(SideThread, WorksInOrderWithSignalsBlocked) {
  Worker worker;
  SideThread side(Worker::work, &worker);
  Entry entries[3];
  for (Entry& entry : entries) ASSERT_TRUE(side.submit({&entry, Job::Kind::settle, {}, 1}, 100));
  worker.allow(3);
  for (Entry& entry : entries) EXPECT_TRUE(side.wait_for(entry));
  EXPECT_THAT(worker.done, testing::ElementsAre(&entries[0], &entries[1], &entries[2]));
  EXPECT_TRUE(worker.signals_blocked);
}

TEST(SideThread, SubmitWaitsWhileTooMuchWaits) {
  Worker worker;
  SideThread side(Worker::work, &worker);
  Entry first;
  Entry second;
  ASSERT_TRUE(side.submit({&first, Job::Kind::settle, {}, 100}, 10)) << "nothing waits yet";
  std::atomic<bool> submitted{false};
  std::thread saver([&] {
    side.submit({&second, Job::Kind::settle, {}, 100}, 10);
    submitted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(submitted);
  worker.allow(1);
  saver.join();
  EXPECT_TRUE(submitted);
  worker.allow(1);
  EXPECT_TRUE(side.wait_for(second));
}

TEST(SideThread, DoesItsJobsBeforeItStops) {
  Worker worker;
  SideThread side(Worker::work, &worker);
  Entry entries[3];
  for (Entry& entry : entries) ASSERT_TRUE(side.submit({&entry, Job::Kind::settle, {}, 1}, 100));
  EXPECT_TRUE(side.take_orphans().empty()) << "its thread will do them";
  worker.allow(1);
  EXPECT_TRUE(side.wait_for(entries[0]));
  std::thread stopper([&] { side.stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  worker.allow(2);
  stopper.join();
  EXPECT_TRUE(side.take_orphans().empty());
  EXPECT_EQ(worker.done.size(), 3U);
  EXPECT_FALSE(side.submit({&entries[0], Job::Kind::settle, {}, 1}, 100));
  EXPECT_TRUE(side.wait_for(entries[2])) << "nothing of it waits any more";
}

TEST(SideThread, NeverStartedStopsToo) {
  Worker worker;
  SideThread side(Worker::work, &worker);
  side.stop();
  EXPECT_TRUE(worker.done.empty());
}

}  // namespace
}  // namespace cinch::hooks
