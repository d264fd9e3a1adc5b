// SPDX-License-Identifier: Apache-2.0
// Memory that moves before the device is done with it: it is mapped at the new addresses at once,
// and unmapped from the old ones later.
#include <vector>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t page = 2 * mebibyte;

FakeDriver::Options delayed(std::size_t bytes) {
  FakeDriver::Options options;
  options.memory_bytes = bytes;
  options.instant = false;
  return options;
}

Config plain_pages() {
  Config config;
  config.large_page = config.least_large_page = page;
  return config;
}

/// Four blocks of 4 MiB in stream 1. The first and the third are free, but the device still works
/// with them.
struct Device {
  explicit Device(std::size_t memory = 64 * mebibyte)
      : fake(delayed(memory)), core(fake.table(), plain_pages()) {
    for (Address& block : blocks) block = core.allocate(4 * mebibyte, 1);
    work = fake.work(1);
    core.free(blocks[0]);
    core.free(blocks[2]);
    fake.on_unmap([this](Address address, std::size_t) {
      for (const Address block : {blocks[0], blocks[2]}) {
        const bool here = address - block < 4 * mebibyte;
        EXPECT_TRUE(!here || fake.done(work)) << "unmapped too early";
      }
    });
  }
  ~Device() {
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
    EXPECT_EQ(fake.misuses(), 0u);
    fake.on_unmap(nullptr);
  }
  std::uint64_t calls(Call call) const { return fake.calls(call); }
  /// Makes the allocator look for memory and create some, since it has none. Where it is mapped.
  Address miss() { return core.allocate(page, 1); }

  FakeDriver fake;
  Core core;
  Address blocks[4];
  FakeDriver::Work work;
};

TEST(BusyDonors, MoveAtOnceAndNobodyWaits) {
  Device device;
  const Address stitched = device.core.allocate(8 * mebibyte, 1);
  ASSERT_NE(stitched, 0u);
  EXPECT_TRUE(device.fake.accessible(stitched, 8 * mebibyte));
  EXPECT_EQ(device.fake.created_bytes(), 16 * mebibyte) << "nothing was created";
  EXPECT_EQ(device.calls(Call::event_synchronize), 0u);
  EXPECT_EQ(device.calls(Call::unmap), 0u);
  EXPECT_TRUE(device.fake.accessible(device.blocks[0], 4 * mebibyte)) << "work still runs there";
  const Stats stats = device.core.stats();
  EXPECT_EQ(stats.moved_bytes, 8 * mebibyte);
  EXPECT_EQ(stats.moved_early_bytes, 8 * mebibyte);
  EXPECT_EQ(stats.leaving, 8 * mebibyte);
  EXPECT_EQ(stats.reserved, 16 * mebibyte);
}

TEST(BusyDonors, AreUnmappedWhenTheDeviceIsDone) {
  Device device;
  ASSERT_NE(device.core.allocate(8 * mebibyte, 1), 0u);
  EXPECT_NE(device.miss(), device.blocks[0]);
  EXPECT_EQ(device.calls(Call::unmap), 0u);
  device.fake.complete_all();
  EXPECT_EQ(device.miss(), device.blocks[0]) << "the old addresses are used again";
  EXPECT_EQ(device.calls(Call::unmap), 4u);
  EXPECT_EQ(device.fake.mapped_bytes(), device.fake.created_bytes());
  EXPECT_EQ(device.core.stats().leaving, 0u);
  EXPECT_EQ(device.core.stats().peak_leaving, 8 * mebibyte);
}

TEST(BusyDonors, AnotherStreamRunsBehindTheWorkAtTheOldAddresses) {
  Device device(16 * mebibyte);
  const Address stitched = device.core.allocate(8 * mebibyte, 1);
  ASSERT_NE(stitched, 0u);
  device.core.free(stitched);
  ASSERT_EQ(device.core.allocate(8 * mebibyte, 2), stitched);
  EXPECT_FALSE(device.fake.done(device.work));
  EXPECT_TRUE(device.fake.ordered(device.work, 2));
}

TEST(BusyDonors, SoDoesAStreamThatTakesWhatIsLeftOfThem) {
  Device device(16 * mebibyte);
  const Address stitched = device.core.allocate(13 * mebibyte / 2, 1);
  ASSERT_NE(stitched, 0u);
  ASSERT_EQ(device.core.allocate(3 * mebibyte / 2, 2), stitched + 13 * mebibyte / 2);
  EXPECT_FALSE(device.fake.done(device.work));
  EXPECT_TRUE(device.fake.ordered(device.work, 2));
}

TEST(BusyDonors, AnotherStreamsAreNotMoved) {
  Device device;
  ASSERT_NE(device.core.allocate(8 * mebibyte, 2), 0u);
  EXPECT_EQ(device.core.stats().moved_bytes, 0u);
  EXPECT_EQ(device.core.stats().reserved, 24 * mebibyte);
}

TEST(BusyDonors, MoveAgainBeforeTheDeviceIsDone) {
  Device device(16 * mebibyte);
  device.core.free(device.core.allocate(8 * mebibyte, 1));
  device.core.free(device.blocks[1]);
  const Address stitched = device.core.allocate(12 * mebibyte, 1);
  ASSERT_NE(stitched, 0u);
  EXPECT_EQ(device.calls(Call::event_synchronize), 0u);
  EXPECT_GT(device.core.stats().leaving, 8 * mebibyte);
  device.core.free(stitched);
  device.core.free(device.blocks[3]);
  device.fake.complete_all();
  EXPECT_EQ(device.core.release_idle(), 16 * mebibyte);
  EXPECT_EQ(device.fake.mapped_bytes(), 0u);
  EXPECT_EQ(device.fake.handles(), 0u);
}

TEST(BusyDonors, AreGivenBackOnlyWhenTheDeviceIsDone) {
  Device device;
  device.core.free(device.core.allocate(8 * mebibyte, 1));
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    device.fake.fail(Call::event_synchronize, nth);
    if (device.core.release_idle() != 0) break;  // no such call any more
    EXPECT_FALSE(device.fake.done(device.work)) << nth;
    EXPECT_EQ(device.fake.created_bytes(), 16 * mebibyte);
  }
  EXPECT_EQ(device.fake.created_bytes(), 8 * mebibyte);
}

TEST(BusyDonors, WhatCannotBeUnmappedIsTriedAgain) {
  Device device;
  ASSERT_NE(device.core.allocate(8 * mebibyte, 1), 0u);
  device.fake.complete_all();
  device.fake.fail(Call::unmap, 2);
  EXPECT_NE(device.miss(), 0u);
  EXPECT_EQ(device.core.stats().leaving, 4 * mebibyte);
  EXPECT_NE(device.miss(), 0u);
  EXPECT_EQ(device.core.stats().leaving, 0u);
}

// A miss whose driver calls fail makes a second attempt. It can only succeed, and the memory be of
// the same size, when the first has left the donors where they were.
TEST(BusyDonors, StayWhereTheyWereWhenACallFails) {
  for (const Call call : {Call::map, Call::set_access}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      Device device(16 * mebibyte);
      const std::uint64_t before = device.calls(call);
      device.fake.fail(call, nth);
      const Address stitched = device.core.allocate(8 * mebibyte, 1);
      ASSERT_NE(stitched, 0u);
      EXPECT_TRUE(device.fake.accessible(stitched, 8 * mebibyte));
      EXPECT_EQ(device.core.stats().leaving, 8 * mebibyte);
      EXPECT_EQ(device.fake.mapped_bytes(), 24 * mebibyte) << "both old and new addresses";
      EXPECT_GT(device.calls(call), before);
    }
  }
}

TEST(BusyDonors, StayUsableWhenAFailedMoveCannotBeUndone) {
  Device device(16 * mebibyte);
  device.fake.fail(Call::set_access, 1);
  device.fake.fail(Call::unmap, 1);
  const Address stitched = device.core.allocate(8 * mebibyte, 1);
  ASSERT_NE(stitched, 0u);
  EXPECT_EQ(device.core.breakdown().stuck, 8 * mebibyte);
  for (const Address block : {stitched, device.blocks[1], device.blocks[3]}) {
    device.core.free(block);
  }
  device.fake.complete_all();
  EXPECT_EQ(device.core.release_idle(), 16 * mebibyte);
  EXPECT_EQ(device.core.breakdown().stuck, 0u);
  EXPECT_EQ(device.fake.mapped_bytes(), 0u);
}

TEST(BusyDonors, NoMoreLeavesThanThereIs) {
  Device device(gibibyte);
  device.core.free(device.blocks[1]);
  device.core.free(device.blocks[3]);
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(device.core.allocate(page, 1));
  ASSERT_EQ(device.core.stats().reserved, 16 * mebibyte);
  for (int i = 0; i < 20; ++i) {
    // Two blocks that do not adjoin become one, which becomes two blocks.
    for (const int at : {2, 0}) {
      device.core.free(blocks[at]);
      blocks.erase(blocks.begin() + at);
    }
    device.core.free(device.core.allocate(2 * page, 1));
    for (int half = 0; half < 2; ++half) blocks.push_back(device.core.allocate(page, 1));
    const Stats stats = device.core.stats();
    EXPECT_LE(stats.leaving, stats.reserved) << i;
  }
  EXPECT_GE(device.core.stats().leaving, 16 * mebibyte);
  EXPECT_EQ(device.core.stats().host_waits, 0u);
  EXPECT_FALSE(device.fake.done(device.work));
}

TEST(BusyDonors, AnotherStreamsMissUnmapsThemWhenManyHaveLeft) {
  Device device;
  device.core.free(device.core.allocate(8 * mebibyte, 1));
  device.core.free(device.blocks[1]);
  ASSERT_NE(device.core.allocate(12 * mebibyte, 1), 0u);
  const Stats stats = device.core.stats();
  ASSERT_GT(stats.leaving, stats.reserved / 2);
  device.fake.complete_all();
  ASSERT_NE(device.core.allocate(page, 2), 0u);
  EXPECT_EQ(device.core.stats().leaving, 0u);
}

TEST(BusyDonors, CountOnce) {
  Device device;
  const Address stitched = device.core.allocate(8 * mebibyte, 1);
  std::size_t shown = 0;
  for (const Core::BlockInfo& block : device.core.snapshot()) shown += block.bytes;
  EXPECT_EQ(shown, 16 * mebibyte);
  EXPECT_EQ(device.core.breakdown().stitched, 8 * mebibyte);
  std::size_t behind = 0;
  for (const Core::Piece& piece : device.core.behind(stitched)) {
    EXPECT_EQ(piece.address, stitched + behind);
    behind += piece.bytes;
  }
  EXPECT_EQ(behind, 8 * mebibyte);
}

TEST(BusyDonors, StayWhilePausedAndWherePinned) {
  Device device(16 * mebibyte);
  device.core.pause();
  const std::uint64_t calls = device.calls(Call::map) + device.calls(Call::event_query);
  EXPECT_EQ(device.core.allocate(8 * mebibyte, 1), 0u);
  EXPECT_EQ(device.calls(Call::map) + device.calls(Call::event_query), calls);
  device.core.resume();
  ASSERT_EQ(device.core.allocate(4 * mebibyte, 1), device.blocks[0]);
  ASSERT_TRUE(device.core.pin(device.blocks[0]));
  device.core.free(device.blocks[0]);
  EXPECT_EQ(device.core.allocate(8 * mebibyte, 1), 0u);
  EXPECT_TRUE(device.fake.accessible(device.blocks[0], 4 * mebibyte));
  device.core.unpin(device.blocks[0], 4 * mebibyte);
}

}  // namespace
}  // namespace cinch::allocator
