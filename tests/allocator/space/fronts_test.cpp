// SPDX-License-Identifier: Apache-2.0
#include "allocator/space/fronts.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

Config always() {
  Config config = Config::device();
  config.front_always = true;
  return config;
}

class FrontsTest : public testing::Test {
 protected:
  void expect_right() {
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
  }
  // The stream's first free finds no front and makes it.
  void warm(Stream stream) { core.free(core.allocate(100, stream)); }

  FakeDriver fake;
  Core core{fake.table(), always()};
};

TEST_F(FrontsTest, AFreedBlockServesTheNextRequestOfItsSize) {
  warm(0);
  const Address block = core.allocate(3 * mebibyte - 100);
  const std::uint64_t calls = fake.calls();
  ASSERT_TRUE(core.free(block));
  EXPECT_EQ(core.allocate(3 * mebibyte, 0, 7), block);
  EXPECT_EQ(core.stats().fronted, 1u);
  EXPECT_EQ(fake.calls(), calls);
  ASSERT_TRUE(core.find(block).has_value());
  EXPECT_EQ(core.find(block)->requested, 3 * mebibyte);
  EXPECT_EQ(core.find(block)->tag, 7u);
  EXPECT_EQ(core.stats().requested, 3 * mebibyte);
  expect_right();
}

TEST_F(FrontsTest, FiguresAndSnapshotsSeeWhatIsFree) {
  warm(0);
  core.release_idle();
  core.reset_peaks();
  const Address block = core.allocate(3 * mebibyte);
  const Stats used = core.stats();
  core.free(block);
  const Stats stats = core.stats();
  EXPECT_EQ(stats.allocated, 0u);
  EXPECT_EQ(stats.requested, 0u);
  EXPECT_EQ(stats.used_blocks, 0u);
  EXPECT_EQ(stats.quick, 3 * mebibyte);
  EXPECT_EQ(stats.frees, used.frees + 1);
  EXPECT_EQ(stats.peak_allocated, 3 * mebibyte);
  EXPECT_EQ(stats.pools[1].blocks.current, 0u);
  EXPECT_EQ(stats.pools[1].allocated.current, 0u);
  for (const Core::BlockInfo& info : core.snapshot()) EXPECT_NE(info.state, State::used);
  const Breakdown breakdown = core.breakdown();
  EXPECT_EQ(breakdown.allocated, 0u);
  EXPECT_EQ(breakdown.free, stats.reserved);
  EXPECT_TRUE(breakdown.holders.empty());
  core.reset_peaks();
  EXPECT_EQ(core.stats().peak_allocated, 0u);
  expect_right();
}

TEST_F(FrontsTest, AFreedBlockIsNobodys) {
  warm(0);
  const Address block = core.allocate(1000);
  ASSERT_TRUE(core.free(block));
  EXPECT_FALSE(core.free(block));
  EXPECT_FALSE(core.record_stream(block, 1));
  EXPECT_FALSE(core.pin(block));
  EXPECT_FALSE(core.find(block).has_value());
  EXPECT_EQ(core.size_of(block), 0u);
  EXPECT_TRUE(core.behind(block).empty());
  EXPECT_EQ(core.allocate(1000), block);
  EXPECT_TRUE(core.free(block));
  EXPECT_FALSE(core.free(block));
  expect_right();
}

TEST_F(FrontsTest, StreamsDoNotShare) {
  warm(0);
  warm(1);
  const Address block = core.allocate(3 * mebibyte, 0);
  core.free(block);
  EXPECT_NE(core.allocate(3 * mebibyte, 1), block);
  EXPECT_EQ(core.allocate(3 * mebibyte, 0), block);
  expect_right();
}

TEST_F(FrontsTest, NoMemoryIsCreatedWhileTheStreamsFrontsHaveIt) {
  warm(0);
  std::array<Address, 8> blocks{};
  for (Address& block : blocks) block = core.allocate(2 * mebibyte);
  const std::size_t reserved = core.stats().reserved;
  for (const Address block : blocks) core.free(block);
  const Address large = core.allocate(16 * mebibyte);
  EXPECT_NE(large, 0u);
  EXPECT_EQ(core.stats().reserved, reserved);
  EXPECT_EQ(core.stats().quick, 0u);
  expect_right();
}

TEST(Fronts, MemoryInOtherStreamsFrontsIsUsedBeforeThereIsNone) {
  FakeDriver::Options options;
  options.memory_bytes = 64 * mebibyte;
  FakeDriver fake(options);
  Config config = always();
  config.front_limit = config.front_bytes = 16 * mebibyte;
  Core core(fake.table(), config);
  for (Stream stream = 0; stream < 3; ++stream) {
    core.free(core.allocate(12 * mebibyte, stream));
    core.free(core.allocate(12 * mebibyte, stream));
  }
  EXPECT_GT(core.stats().quick, 20 * mebibyte);
  const Address block = core.allocate(60 * mebibyte, 3);
  EXPECT_NE(block, 0u);
  core.free(block);
  core.release_idle();
  EXPECT_EQ(fake.created_bytes(), 0u);
}

TEST(Fronts, ABlockThatOtherStreamsUseWaits) {
  FakeDriver::Options options;
  options.instant = false;
  FakeDriver fake(options);
  Core core(fake.table(), always());
  core.free(core.allocate(100));
  const Address block = core.allocate(3 * mebibyte);
  core.record_stream(block, 1);
  core.free(block);
  EXPECT_EQ(core.stats().pending, 3 * mebibyte);
  EXPECT_EQ(core.stats().fronted, 0u);
  fake.complete_all();
  core.release_idle();
}

TEST_F(FrontsTest, WhoIsToldOfFreesIsToldOfAll) {
  warm(0);
  const Address before = core.allocate(1000);
  core.free(before);
  std::vector<Address> told;
  core.set_completed([&told](const Core::BlockInfo& info) { told.push_back(info.address); });
  EXPECT_EQ(core.stats().fronted, 0u);
  const Address block = core.allocate(3 * mebibyte);
  core.free(block);
  EXPECT_EQ(told, std::vector{block});
  core.set_completed(nullptr);
  core.free(core.allocate(3 * mebibyte));
  core.free(core.allocate(3 * mebibyte));
  EXPECT_EQ(told.size(), 1u);
  EXPECT_GT(core.stats().fronted, 0u);
  expect_right();
}

TEST_F(FrontsTest, SizesThatNobodyAsksForMakeRoom) {
  warm(0);
  // More sizes than a front has room for, each once; then one size again and again.
  for (std::size_t i = 1; i <= 200; ++i) core.free(core.allocate(i * 512));
  for (int i = 0; i < 300; ++i) core.free(core.allocate(3 * mebibyte));
  EXPECT_GT(core.stats().fronted, 200u);
  // And more bytes than it may keep.
  std::vector<Address> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(core.allocate(3 * mebibyte));
  for (const Address block : blocks) core.free(block);
  EXPECT_LE(core.stats().quick, Config::device().front_bytes + 8 * mebibyte);
  expect_right();
}

TEST_F(FrontsTest, LargeBlocksAreNotKept) {
  warm(0);
  const Address block = core.allocate(Config::device().front_limit + 1);
  const std::size_t quick = core.stats().quick;
  core.free(block);
  EXPECT_EQ(core.stats().quick, quick);
}

TEST_F(FrontsTest, AreThereForManyStreams) {
  for (Stream stream = 1; stream < 100; ++stream) {
    warm(stream << 20);
    const Address block = core.allocate(2000, stream << 20);
    core.free(block);
    EXPECT_EQ(core.allocate(2000, stream << 20), block);
  }
  EXPECT_EQ(core.stats().used_blocks, 99u);
  expect_right();
}

TEST_F(FrontsTest, AForkHoldsThem) {
  warm(0);
  core.lock_for_fork();
  core.unlock_after_fork();
  warm(0);
  expect_right();
}

// The lock is held while the clock is read, here long enough for others to find it held.
std::uint64_t slow_clock(void*) {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  return 0;
}

TEST(Fronts, OpenWhenThreadsKeepEachOtherWaitingAndCloseAfterwards) {
  FakeDriver fake;
  Driver driver = fake.table();
  driver.now = slow_clock;
  Config config = Config::device();
  config.quick_limit = 0;
  config.idle_period = 1;
  Core core(driver, config);
  for (int i = 0; i < 100; ++i) core.free(core.allocate(1000));
  EXPECT_EQ(core.stats().fronted, 0u);
  std::vector<std::thread> threads;
  for (Stream stream = 0; stream < 2; ++stream) {
    threads.emplace_back([&core, stream] {
      for (int i = 0; i < 100'000 && (i % 100 != 0 || core.stats().fronted == 0); ++i) {
        core.free(core.allocate(1000, stream));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(core.stats().fronted, 0u);
  // Each of these takes the lock and finds it free.
  for (int i = 0; i < 200'000; ++i) core.size_of(1);
  core.free(core.allocate(30 * mebibyte));
  const std::uint64_t fronted = core.stats().fronted;
  EXPECT_EQ(core.stats().quick, 0u);
  core.free(core.allocate(1000));
  core.free(core.allocate(1000));
  EXPECT_EQ(core.stats().fronted, fronted);
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
}

TEST(Lock, TellsWhetherThreadsKeepEachOtherWaiting) {
  Lock lock;
  for (int i = 0; i < 100; ++i) {
    lock.lock();
    EXPECT_FALSE(lock.busy());
    lock.unlock();
  }
  bool busy = false;
  for (int attempt = 0; attempt < 10'000 && !busy; ++attempt) {
    std::atomic<bool> held{false};
    std::thread holder([&] {
      lock.lock();
      held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.unlock();
    });
    while (!held) std::this_thread::yield();
    lock.lock();
    busy = lock.busy();
    lock.unlock();
    holder.join();
  }
  EXPECT_TRUE(busy);
  for (int i = 0; i < 100'000; ++i) {
    lock.lock();
    lock.unlock();
  }
  lock.lock();
  EXPECT_FALSE(lock.busy());
  lock.unlock();
}

}  // namespace
}  // namespace cinch::allocator
