// SPDX-License-Identifier: Apache-2.0
#include "allocator/core.h"

#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

using testing::HasSubstr;

struct Device {
  explicit Device(const FakeDriver::Options& options = {}, const Config& config = Config::device())
      : fake(options), core(fake.table(), config) {}
  ~Device() {
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
    EXPECT_EQ(fake.misuses(), 0u);
  }
  FakeDriver fake;
  Core core;
};

FakeDriver::Options memory_of(std::size_t bytes) {
  FakeDriver::Options options;
  options.memory_bytes = bytes;
  return options;
}

FakeDriver::Options delayed(std::size_t bytes = gibibyte) {
  FakeDriver::Options options = memory_of(bytes);
  options.instant = false;
  return options;
}

// One handle size, so that figures in tests are easy to follow.
Config plain_pages(std::size_t page) {
  Config config;
  config.large_page = config.least_large_page = page;
  return config;
}

TEST(Core, AFreedBlockServesTheNextRequest) {
  Device device;
  const Address a = device.core.allocate(5 * mebibyte);
  ASSERT_NE(a, 0u);
  EXPECT_EQ(a % 512, 0u);
  EXPECT_TRUE(device.core.free(a));
  const std::uint64_t calls = device.fake.calls();
  EXPECT_EQ(device.core.allocate(5 * mebibyte), a);
  EXPECT_EQ(device.fake.calls(), calls);
}

TEST(Core, SmallAndLargeBlocksLieApart) {
  Device device;
  const Address small = device.core.allocate(100);
  const Address large = device.core.allocate(5 * mebibyte);
  EXPECT_EQ(device.core.size_of(small), 512u);
  EXPECT_EQ(device.core.size_of(large), 5 * mebibyte);
  EXPECT_GT(std::max(small, large) - std::min(small, large), gibibyte);
}

TEST(Core, NothingIsABlockToo) {
  Device device;
  const Address a = device.core.allocate(0);
  const Address b = device.core.allocate(0);
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
}

TEST(Core, RefusesWhatIsNoBlock) {
  Device device;
  const Address a = device.core.allocate(mebibyte * 3);
  EXPECT_FALSE(device.core.free(a + 512));
  EXPECT_FALSE(device.core.free(0));
  EXPECT_TRUE(device.core.free(a));
  EXPECT_FALSE(device.core.free(a)) << "twice";
  EXPECT_FALSE(device.core.record_stream(a, 1));
  EXPECT_FALSE(device.core.pin(a));
  EXPECT_EQ(device.core.size_of(a), 0u);
}

// As programs do all the time; it must not cost anybody a block, whatever was freed before.
TEST(Core, RefusesNull) {
  Config config;
  config.quick_limit = 0;  // each free leaves the table
  Device device({}, config);
  std::mt19937_64 random(1);
  std::vector<Address> blocks;
  for (int i = 0; i < 20'000; ++i) {
    blocks.push_back(device.core.allocate(512 * (1 + random() % 64)));
    ASSERT_NE(blocks.back(), 0u);
    if (blocks.size() > 300) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_TRUE(device.core.free(blocks.back()));
      blocks.pop_back();
    }
    ASSERT_FALSE(device.core.free(0)) << i;
    ASSERT_FALSE(device.core.record_stream(0, 1)) << i;
    ASSERT_EQ(device.core.size_of(0), 0u) << i;
  }
}

TEST(Core, TakesTheSmallestBlockThatFits) {
  Device device({}, plain_pages(2 * mebibyte));
  const Address large = device.core.allocate(10 * mebibyte);
  const Address wall = device.core.allocate(2 * mebibyte);
  const Address small = device.core.allocate(4 * mebibyte);
  const Address end = device.core.allocate(2 * mebibyte);
  device.core.free(large);
  device.core.free(small);
  EXPECT_EQ(device.core.allocate(4 * mebibyte), small);
  EXPECT_EQ(device.core.allocate(4 * mebibyte), large) << "split";
  EXPECT_EQ(device.core.allocate(6 * mebibyte), large + 4 * mebibyte) << "the rest";
  EXPECT_NE(wall, end);
}

TEST(Core, NeighboursBecomeOneBlock) {
  Device device({}, plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(4 * mebibyte);
  const Address b = device.core.allocate(4 * mebibyte);
  const Address c = device.core.allocate(4 * mebibyte);
  device.core.free(a);
  device.core.free(c);
  device.core.free(b);
  EXPECT_EQ(device.core.allocate(12 * mebibyte), a);
  EXPECT_EQ(device.core.stats().reserved, 12 * mebibyte);
}

TEST(Core, MovesFreeHandlesFromAnywhere) {
  Device device(memory_of(64 * mebibyte), plain_pages(2 * mebibyte));
  std::vector<Address> blocks(16);
  for (Address& block : blocks) block = device.core.allocate(4 * mebibyte);
  for (std::size_t i = 0; i < 16; i += 2) device.core.free(blocks[i]);
  // 32 MiB are free in pieces of 4.
  const Address stitched = device.core.allocate(32 * mebibyte);
  ASSERT_NE(stitched, 0u);
  EXPECT_TRUE(device.fake.accessible(stitched, 32 * mebibyte));
  const Stats stats = device.core.stats();
  EXPECT_EQ(stats.stitches, 1u);
  EXPECT_EQ(stats.moved_bytes, 32 * mebibyte);
  EXPECT_EQ(stats.reserved, 64 * mebibyte);
  EXPECT_EQ(device.core.breakdown().stitched, 32 * mebibyte);
}

TEST(Core, ExtendsAFreeBlockRatherThanMoveIt) {
  Device device({}, plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(10 * mebibyte);
  device.core.free(a);
  EXPECT_EQ(device.core.allocate(14 * mebibyte), a);
  EXPECT_EQ(device.core.stats().moved_bytes, 0u);
  EXPECT_EQ(device.core.stats().reserved, 14 * mebibyte);
}

TEST(Core, HandlesGrowWithWhatIsReserved) {
  Device device;
  device.core.allocate(8 * mebibyte);
  EXPECT_EQ(device.fake.calls(Call::create), 4u);
  for (int i = 1; i < 400; ++i) device.core.allocate(8 * mebibyte);
  const std::uint64_t handles = device.fake.calls(Call::create);
  EXPECT_LT(handles, 320u);
  for (int i = 400; i < 600; ++i) device.core.allocate(8 * mebibyte);
  EXPECT_LE(device.fake.calls(Call::create) - handles, 81u) << "20 MiB each";
  EXPECT_LE(device.core.stats().reserved, (4800 + 20) * mebibyte);
}

TEST(Core, AnotherStreamDoesNotGetABlockWhileThereIsMemory) {
  Device device(delayed());
  const Address a = device.core.allocate(4 * mebibyte, 1);
  device.core.free(a);
  EXPECT_NE(device.core.allocate(4 * mebibyte, 2), a);
  EXPECT_EQ(device.core.allocate(4 * mebibyte, 1), a);
  EXPECT_EQ(device.fake.calls(Call::stream_wait), 0u);
}

TEST(Core, AnotherStreamWaitsOnTheDeviceWhenThereIsNone) {
  Device device(delayed(8 * mebibyte), plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(8 * mebibyte, 1);
  const auto work = device.fake.work(1);
  device.core.free(a);
  EXPECT_EQ(device.core.allocate(8 * mebibyte, 2), a);
  EXPECT_TRUE(device.fake.ordered(work, 2));
  EXPECT_FALSE(device.fake.done(work));
  EXPECT_EQ(device.fake.calls(Call::event_synchronize), 0u);
  EXPECT_EQ(device.core.stats().foreign, 1u);
}

TEST(Core, TheHostWaitsOnlyBeforeItIsOutOfMemory) {
  Device device(delayed(16 * mebibyte), plain_pages(2 * mebibyte));
  std::vector<Address> blocks(4);
  for (Address& block : blocks) block = device.core.allocate(4 * mebibyte, 1);
  const auto work = device.fake.work(1);
  device.core.free(blocks[0]);
  device.core.free(blocks[2]);
  ASSERT_FALSE(device.fake.done(work));
  EXPECT_NE(device.core.allocate(8 * mebibyte, 2), 0u) << "moved after waiting";
  EXPECT_TRUE(device.fake.done(work));
  EXPECT_EQ(device.core.stats().host_waits, 1u);
}

TEST(Core, RecordStreamKeepsABlockUntilTheStreamIsDone) {
  Device device(delayed());
  const Address a = device.core.allocate(1000, 1);
  EXPECT_TRUE(device.core.record_stream(a, 2));
  EXPECT_TRUE(device.core.record_stream(a, 2));
  EXPECT_TRUE(device.core.record_stream(a, 1)) << "its own";
  const auto use = device.fake.work(2);
  device.core.free(a);
  const Address b = device.core.allocate(1000, 1);
  EXPECT_TRUE(b != a || device.fake.ordered(use, 1));
  device.fake.complete_all();
  device.core.release_idle();
  EXPECT_EQ(device.core.stats().pending, 0u);
}

TEST(Core, NeverExceedsItsLimit) {
  Device device({}, plain_pages(20 * mebibyte));
  device.core.set_limit(50 * mebibyte);
  const Address a = device.core.allocate(25 * mebibyte);
  EXPECT_NE(a, 0u);
  EXPECT_NE(device.core.allocate(24 * mebibyte), 0u);
  EXPECT_EQ(device.core.allocate(10 * mebibyte), 0u);
  EXPECT_LE(device.core.stats().reserved, 50 * mebibyte);
  EXPECT_EQ(device.core.stats().failures, 1u);
  device.core.free(a);
  EXPECT_NE(device.core.allocate(10 * mebibyte), 0u);
}

TEST(Core, AsksTheStashBeforeItFails) {
  Device device(memory_of(64 * mebibyte));
  std::vector<Address> stash;
  for (int i = 0; i < 6; ++i) stash.push_back(device.core.allocate(10 * mebibyte));
  std::vector<std::size_t> asked;
  device.core.set_reclaim([&](std::size_t bytes) -> std::size_t {
    asked.push_back(bytes);
    if (stash.empty()) return 0;
    device.core.free(stash.back());
    stash.pop_back();
    return 10 * mebibyte;
  });
  EXPECT_NE(device.core.allocate(32 * mebibyte), 0u);
  EXPECT_EQ(stash.size(), 3u);
  EXPECT_THAT(asked, testing::Each(32 * mebibyte));
  EXPECT_EQ(device.core.stats().reclaims, asked.size());
  EXPECT_EQ(device.core.allocate(gibibyte), 0u);
}

TEST(Core, AStashThatThrowsIsNoMemory) {
  Device device(memory_of(4 * mebibyte));
  device.core.set_reclaim([](std::size_t) -> std::size_t { throw std::bad_alloc(); });
  EXPECT_EQ(device.core.allocate(8 * mebibyte), 0u);
}

TEST(Core, ReleasesEmptyPagesAndKeepsTheOthers) {
  Device device({}, plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(2 * mebibyte);
  const Address b = device.core.allocate(9 * mebibyte / 2);
  device.core.free(a);
  EXPECT_EQ(device.core.release_idle(), 2 * mebibyte);
  EXPECT_EQ(device.core.stats().reserved, 6 * mebibyte);
  EXPECT_EQ(device.core.allocate(mebibyte + 1), b + 9 * mebibyte / 2) << "what b's last page has";
}

TEST(Core, PinnedMemoryStaysWhereItIs) {
  Device device(memory_of(16 * mebibyte), plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(8 * mebibyte);
  ASSERT_TRUE(device.core.pin(a));
  device.core.free(a);
  device.core.release_idle();
  EXPECT_TRUE(device.fake.accessible(a, 8 * mebibyte));
  EXPECT_EQ(device.core.breakdown().pinned, 8 * mebibyte);
  device.core.unpin(a, 8 * mebibyte);
  device.core.release_idle();
  EXPECT_FALSE(device.fake.accessible(a, 8 * mebibyte));
}

TEST(Core, NothingMovesWhilePaused) {
  Device device(memory_of(16 * mebibyte), plain_pages(2 * mebibyte));
  std::vector<Address> blocks(4);
  for (Address& block : blocks) block = device.core.allocate(4 * mebibyte);
  device.core.free(blocks[0]);
  device.core.free(blocks[2]);
  device.core.pause();
  const std::uint64_t unmaps = device.fake.calls(Call::unmap);
  const std::uint64_t queries = device.fake.calls(Call::event_query);
  EXPECT_EQ(device.core.allocate(8 * mebibyte), 0u);
  EXPECT_EQ(device.core.allocate(4 * mebibyte), blocks[0]) << "cached blocks are served";
  EXPECT_EQ(device.core.release_idle(), 0u);
  EXPECT_EQ(device.fake.calls(Call::unmap), unmaps);
  EXPECT_EQ(device.fake.calls(Call::event_query), queries);
  device.core.free(blocks[0]);
  device.core.resume();
  EXPECT_NE(device.core.allocate(8 * mebibyte), 0u);
}

TEST(Core, IdleMemoryDecays) {
  FakeDriver::Options options;
  options.synchronous = true;
  Config config = Config::host();
  config.idle_period = 1000;
  config.pressure = 0;
  Device device(options, config);
  const Address large = device.core.allocate(400 * mebibyte);
  const Address small = device.core.allocate(40 * mebibyte);
  device.core.free(large);
  device.core.free(small);
  EXPECT_EQ(device.core.stats().reserved, 440 * mebibyte) << "it may be wanted again";
  for (int i = 0; i < 20; ++i) {
    device.fake.advance(500);
    device.core.free(device.core.allocate(40 * mebibyte));
  }
  EXPECT_LE(device.core.stats().reserved, 44 * mebibyte);
  EXPECT_GE(device.core.stats().reserved, 40 * mebibyte);
}

// A training: each step takes 40 MiB and is a round that takes `step` nanoseconds.
class Rounds {
 public:
  explicit Rounds(std::uint64_t step) : step_(step) {}
  void evaluate() { device_.core.free(device_.core.allocate(400 * mebibyte)); }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      const Address address = device_.core.allocate(40 * mebibyte);
      device_.fake.advance(step_);
      device_.core.end_round();
      device_.core.free(address);
    }
  }
  std::size_t reserved() const { return device_.core.stats().reserved; }
  std::uint64_t released() const { return device_.fake.calls(Call::release); }

 private:
  static FakeDriver::Options host() {
    FakeDriver::Options options;
    options.synchronous = true;
    return options;
  }
  static Config config() {
    Config config = Config::host();
    config.pressure = 0;
    return config;
  }
  const std::uint64_t step_;
  Device device_{host(), config()};
};

TEST(Core, APeriodEndsAfterAFewRounds) {
  Rounds rounds(200'000'000);
  rounds.train(20);
  rounds.evaluate();
  rounds.train(4);
  EXPECT_GE(rounds.reserved(), 400 * mebibyte) << "the next evaluation may be near";
  rounds.train(12);
  EXPECT_LE(rounds.reserved(), 44 * mebibyte);
  EXPECT_GE(rounds.reserved(), 40 * mebibyte);
}

TEST(Core, ShortRoundsEndNoPeriodBeforeASecond) {
  Rounds rounds(1'000'000);
  rounds.train(20);
  rounds.evaluate();
  rounds.train(900);
  EXPECT_GE(rounds.reserved(), 400 * mebibyte);
  rounds.train(1300);
  EXPECT_LE(rounds.reserved(), 44 * mebibyte);
}

TEST(Core, WhatEveryRoundUsesIsKept) {
  Rounds rounds(200'000'000);
  for (int i = 0; i < 50; ++i) {
    rounds.evaluate();
    rounds.train(1);
  }
  EXPECT_EQ(rounds.released(), 0u);
}

TEST(Core, MemoryPressureReleasesWhatIsIdle) {
  Config config = plain_pages(2 * mebibyte);
  config.pressure = 50 * mebibyte;
  Device device(memory_of(64 * mebibyte), config);
  device.core.free(device.core.allocate(20 * mebibyte, 1));
  device.core.allocate(2 * mebibyte, 2);
  EXPECT_LE(device.core.stats().reserved, 2 * mebibyte);
}

TEST(Core, SaysWhereMemoryIs) {
  Device device(memory_of(64 * mebibyte), plain_pages(2 * mebibyte));
  device.core.allocate(8 * mebibyte, 0, 42);
  device.core.allocate(8 * mebibyte, 0, 42);
  device.core.free(device.core.allocate(6 * mebibyte));
  const Breakdown breakdown = device.core.breakdown();
  EXPECT_EQ(breakdown.allocated, 16 * mebibyte);
  EXPECT_EQ(breakdown.free, 6 * mebibyte);
  EXPECT_EQ(breakdown.largest, 6 * mebibyte);
  EXPECT_NEAR(breakdown.fragmentation(), 6.0 / 22, 1e-9);
  ASSERT_EQ(breakdown.holders.size(), 1u);
  EXPECT_EQ(breakdown.holders[0].count, 2u);
  EXPECT_EQ(breakdown.holders[0].tag, 42u);
  EXPECT_THAT(breakdown.text(), HasSubstr("Reserved 22.00 MiB: 16.00 MiB allocated"));
  EXPECT_THAT(breakdown.text(), HasSubstr("2 x 8.00 MiB (tag 42)"));
}

TEST(Core, SnapshotShowsEveryBlock) {
  Device device({}, plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(3 * mebibyte, 5, 1);
  const auto blocks = device.core.snapshot();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].address, a);
  EXPECT_EQ(blocks[0].requested, 3 * mebibyte);
  EXPECT_EQ(blocks[0].stream, 5u);
  EXPECT_EQ(blocks[0].state, State::used);
  EXPECT_EQ(blocks[1].state, State::free);
  EXPECT_EQ(blocks[1].bytes, mebibyte);
}

TEST(Core, PeaksStartAnew) {
  Device device;
  device.core.free(device.core.allocate(30 * mebibyte));
  device.core.release_idle();
  EXPECT_EQ(device.core.stats().peak_allocated, 30 * mebibyte);
  device.core.reset_peaks();
  EXPECT_EQ(device.core.stats().peak_allocated, 0u);
  EXPECT_EQ(device.core.stats().peak_reserved, 0u);
}

TEST(Core, CountsByPool) {
  Device device;
  const Address small = device.core.allocate(1000);
  const Address large = device.core.allocate(3 * mebibyte);
  device.core.free(large);
  const Stats stats = device.core.stats();
  const PoolStats& small_pool = stats.pools[0];
  const PoolStats& large_pool = stats.pools[1];
  EXPECT_EQ(small_pool.blocks.current, 1u);
  EXPECT_EQ(small_pool.allocated.current, 1024u);
  EXPECT_EQ(small_pool.requested.current, 1000u);
  EXPECT_EQ(small_pool.reserved.current, 2 * mebibyte);
  EXPECT_EQ(large_pool.blocks.current, 0u);
  EXPECT_EQ(large_pool.blocks.peak, 1u);
  EXPECT_EQ(large_pool.allocated.added, 3 * mebibyte);
  EXPECT_GE(large_pool.reserved.current, 3 * mebibyte);
  EXPECT_EQ(stats.peak_active, stats.peak_allocated);
  EXPECT_EQ(stats.peak_handles, small_pool.handles.current + large_pool.handles.current);
  device.core.free(small);
}

TEST(Core, WhatIsPendingIsActive) {
  Device device(delayed());
  const Address a = device.core.allocate(3 * mebibyte, 1);
  device.core.record_stream(a, 2);
  device.fake.work(2);
  device.core.free(a);
  EXPECT_EQ(device.core.stats().pools[1].pending_blocks, 1u);
  device.core.allocate(3 * mebibyte, 3);
  EXPECT_EQ(device.core.stats().peak_active, 6 * mebibyte);
  EXPECT_EQ(device.core.stats().peak_allocated, 3 * mebibyte);
}

TEST(Core, AHopelessRequestTakesNothingFirst) {
  Device device(memory_of(64 * mebibyte));
  EXPECT_EQ(device.core.allocate(gibibyte), 0u);
  EXPECT_EQ(device.core.stats().reserved, 0u);
  EXPECT_EQ(device.fake.calls(Call::create), 0u);
}

TEST(Core, AFreeIsCompleteWhenOtherStreamsAreDone) {
  Device device(delayed());
  std::vector<Core::BlockInfo> completed;
  device.core.set_completed([&](const Core::BlockInfo& block) { completed.push_back(block); });
  const Address a = device.core.allocate(3 * mebibyte, 1);
  const Address b = device.core.allocate(5 * mebibyte, 1);
  device.core.record_stream(a, 2);
  device.fake.work(2);
  device.core.free(b);
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].address, b);
  EXPECT_EQ(completed[0].requested, 5 * mebibyte);
  EXPECT_EQ(completed[0].stream, 1u);
  device.core.free(a);
  EXPECT_EQ(completed.size(), 1u) << "stream 2 may still use it";
  device.fake.complete_all();
  device.core.release_idle();
  ASSERT_EQ(completed.size(), 2u);
  EXPECT_EQ(completed[1].address, a);
}

TEST(Core, AccessIsRenewedForAllThatIsMapped) {
  Device device({}, plain_pages(2 * mebibyte));
  device.core.allocate(6 * mebibyte);
  const std::uint64_t before = device.fake.calls(Call::set_access);
  EXPECT_TRUE(device.core.renew_access());
  EXPECT_EQ(device.fake.calls(Call::set_access), before + 3);
  device.fake.fail(Call::set_access, 1);
  EXPECT_FALSE(device.core.renew_access());
}

TEST(Core, AFailedMapLeavesEverythingAsItWas) {
  Device device(memory_of(64 * mebibyte), plain_pages(2 * mebibyte));
  const Address a = device.core.allocate(8 * mebibyte);
  const std::size_t mapped = device.fake.mapped_bytes();
  // Every way to make room fails: the first try, after waiting, and after releasing.
  for (const Call call : {Call::map, Call::set_access}) {
    device.fake.fail_randomly(0, 0);
    device.fake.fail(call, 2);
    device.core.set_limit(device.core.stats().reserved + 10 * mebibyte);
    const Address b = device.core.allocate(10 * mebibyte);
    if (b != 0) device.core.free(b);
    device.fake.stop_failing();
    device.core.release_idle();
    EXPECT_EQ(device.fake.mapped_bytes(), mapped);
    EXPECT_EQ(device.core.stats().reserved, 8 * mebibyte);
  }
  EXPECT_TRUE(device.core.free(a));
}

TEST(Core, WhatCannotBeUnmappedIsTriedAgain) {
  Device device({}, plain_pages(2 * mebibyte));
  device.fake.fail(Call::set_access, 1);
  device.fake.fail(Call::unmap, 1);
  const Address a = device.core.allocate(6 * mebibyte);
  ASSERT_NE(a, 0u) << "the second try";
  EXPECT_GT(device.core.breakdown().stuck, 0u);
  device.core.free(a);
  device.core.release_idle();
  EXPECT_EQ(device.core.breakdown().stuck, 0u);
  EXPECT_EQ(device.fake.created_bytes(), 0u);
}

}  // namespace
}  // namespace cinch::allocator
