// SPDX-License-Identifier: Apache-2.0
// The parts of the CUDA adapter that need neither torch nor CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/driver/address_ranges.h"
#include "allocator/torch/cuda/driver/watched_driver.h"
#include "allocator/torch/cuda/settings.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Settings, NamesThoseWithoutEffectOnce) {
  EXPECT_THAT(settings_without_effect(""), IsEmpty());
  EXPECT_THAT(settings_without_effect("expandable_segments:True,backend:native"), IsEmpty());
  EXPECT_THAT(settings_without_effect("max_split_size_mb: 64, expandable_segments:True"),
              ElementsAre("max_split_size_mb"));
  EXPECT_THAT(
      settings_without_effect("roundup_power2_divisions:[256:1,512:2,>:4],"
                              "garbage_collection_threshold:0.8,max_split_size_mb:8,"
                              "garbage_collection_threshold:0.9"),
      ElementsAre("roundup_power2_divisions", "garbage_collection_threshold", "max_split_size_mb"));
  EXPECT_THAT(settings_without_effect("pinned_num_register_threads:[max_split_size_mb]"),
              IsEmpty());
}

TEST(AddressRanges, KnowTheOwner) {
  AddressRanges ranges;
  EXPECT_EQ(ranges.owner_of(5), AddressRanges::none);
  ranges.add(100, 50, 0);
  ranges.add(200, 50, 3);
  EXPECT_EQ(ranges.owner_of(100), 0);
  EXPECT_EQ(ranges.owner_of(149), 0);
  EXPECT_EQ(ranges.owner_of(150), AddressRanges::none);
  EXPECT_EQ(ranges.owner_of(249), 3);
  ranges.remove(100);
  EXPECT_EQ(ranges.owner_of(100), AddressRanges::none);
  ranges.add(300, 1, 2);
  EXPECT_EQ(ranges.owner_of(300), 2);
  for (Address i = 0; i < 2000; ++i) ranges.add(10'000 + i, 1, 1);  // more than there is room for
  EXPECT_EQ(ranges.owner_of(300), 2);
}

struct Event {
  WatchedDriver::Change change;
  Address address;
  std::size_t bytes;
};

TEST(WatchedDriver, TellsOfEveryMappingOnceAndOfNoneThatFailed) {
  FakeDriver fake;
  std::vector<Event> events;
  WatchedDriver watched(fake.table(),
                        [&](WatchedDriver::Change change, Address address, std::size_t bytes) {
                          events.push_back({change, address, bytes});
                        });
  Config config = Config::device();
  config.large_page = 2 * mebibyte;
  const auto sum = [&](WatchedDriver::Change change) {
    std::size_t bytes = 0;
    for (const Event& event : events) bytes += event.change == change ? event.bytes : 0;
    return bytes;
  };
  {
    Core core(watched.table(), config);
    fake.fail(Call::set_access, 1);
    const Address a = core.allocate(6 * mebibyte);
    ASSERT_NE(a, 0u) << "the second try";
    EXPECT_EQ(sum(WatchedDriver::Change::mapped), 6 * mebibyte);
    EXPECT_EQ(sum(WatchedDriver::Change::unmapping), 0u) << "what nobody was told of";
    core.renew_access();
    EXPECT_EQ(sum(WatchedDriver::Change::mapped), 6 * mebibyte) << "told once";
    core.free(a);
    core.release_idle();
    EXPECT_EQ(sum(WatchedDriver::Change::unmapping), 6 * mebibyte);
  }
  EXPECT_EQ(sum(WatchedDriver::Change::reserved), sum(WatchedDriver::Change::unreserving));
  EXPECT_EQ(fake.misuses(), 0u);
}

TEST(WatchedDriver, AMappingThatStaysIsToldAgain) {
  FakeDriver fake;
  std::vector<Event> events;
  WatchedDriver watched(fake.table(),
                        [&](WatchedDriver::Change change, Address address, std::size_t bytes) {
                          events.push_back({change, address, bytes});
                        });
  Core core(watched.table());
  const Address a = core.allocate(2 * mebibyte);
  core.free(a);
  events.clear();
  fake.fail(Call::unmap, 1);
  core.release_idle();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[0].change, WatchedDriver::Change::unmapping);
  EXPECT_EQ(events[1].change, WatchedDriver::Change::mapped);
  EXPECT_EQ(events[0].address, events[1].address);
}

}  // namespace
}  // namespace cinch::allocator
