// SPDX-License-Identifier: Apache-2.0
#include "tools/fake_driver.h"

#include <cstring>

#include <gtest/gtest.h>

#include "allocator/config.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t unit = 2 * mebibyte;

struct Device {
  explicit Device(const FakeDriver::Options& options = {}) : fake(options), d(fake.table()) {}
  FakeDriver fake;
  Driver d;
};

// Makes a handle of one unit, and reserves addresses for four.
void make(const Driver& d, Address& at, Handle& handle) {
  ASSERT_EQ(d.reserve(d.self, 4 * unit, &at), Status::ok);
  ASSERT_EQ(d.create(d.self, unit, &handle), Status::ok);
}

TEST(FakeDriver, MemoryFollowsItsHandle) {
  FakeDriver::Options options;
  options.backed = true;
  Device device(options);
  const Driver& d = device.d;
  Address at = 0;
  Handle handle = 0;
  ASSERT_NO_FATAL_FAILURE(make(d, at, handle));
  ASSERT_EQ(d.map(d.self, at, unit, handle), Status::ok);
  EXPECT_FALSE(device.fake.accessible(at, unit));
  ASSERT_EQ(d.set_access(d.self, at, unit), Status::ok);
  EXPECT_TRUE(device.fake.accessible(at, unit));
  std::memcpy(reinterpret_cast<void*>(at + 100), "hello", 6);
  ASSERT_EQ(d.unmap(d.self, at, unit, handle), Status::ok);
  ASSERT_EQ(d.map(d.self, at + 2 * unit, unit, handle), Status::ok);
  ASSERT_EQ(d.set_access(d.self, at + 2 * unit, unit), Status::ok);
  EXPECT_STREQ(reinterpret_cast<const char*>(at + 2 * unit + 100), "hello");
  EXPECT_EQ(device.fake.misuses(), 0u);
}

TEST(FakeDriver, HasLimits) {
  FakeDriver::Options options;
  options.memory_bytes = 3 * unit;
  options.max_handles = 2;
  options.address_bytes = 4 * unit;
  Device device(options);
  const Driver& d = device.d;
  Handle a = 0;
  Handle b = 0;
  EXPECT_EQ(d.create(d.self, 4 * unit, &a), Status::out_of_memory);
  EXPECT_EQ(d.create(d.self, unit, &a), Status::ok);
  EXPECT_EQ(d.create(d.self, unit, &b), Status::ok);
  EXPECT_EQ(d.create(d.self, unit, &b), Status::out_of_memory) << "a third handle";
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(d.memory_info(d.self, &free, &total), Status::ok);
  EXPECT_EQ(free, unit);
  EXPECT_EQ(total, 3 * unit);
  Address at = 0;
  EXPECT_EQ(d.reserve(d.self, 5 * unit, &at), Status::out_of_addresses);
  EXPECT_EQ(d.reserve(d.self, 4 * unit, &at), Status::ok);
  EXPECT_EQ(d.reserve(d.self, unit, &at), Status::out_of_addresses);
}

TEST(FakeDriver, NoticesMisuse) {
  Device device;
  const Driver& d = device.d;
  Address at = 0;
  Handle handle = 0;
  ASSERT_NO_FATAL_FAILURE(make(d, at, handle));
  EXPECT_EQ(d.create(d.self, unit + 1, &handle), Status::failed);
  EXPECT_EQ(d.map(d.self, at + 4 * unit, unit, handle), Status::failed) << "not reserved";
  EXPECT_EQ(d.map(d.self, at, 2 * unit, handle), Status::failed) << "not the handle's size";
  ASSERT_EQ(d.map(d.self, at, unit, handle), Status::ok);
  EXPECT_EQ(d.map(d.self, at, unit, handle), Status::failed) << "mapped there already";
  EXPECT_EQ(d.release(d.self, handle), Status::failed) << "still mapped";
  EXPECT_EQ(d.unreserve(d.self, at, 4 * unit), Status::failed) << "still mapped";
  EXPECT_EQ(d.set_access(d.self, at, 2 * unit), Status::failed) << "half of it not mapped";
  EXPECT_EQ(d.unmap(d.self, at + unit, unit, handle), Status::failed);
  EXPECT_EQ(device.fake.misuses(), 8u);
}

TEST(FakeDriver, FailsTheNthCall) {
  Device device;
  const Driver& d = device.d;
  Handle handle = 0;
  device.fake.fail(Call::create, 2, Status::out_of_memory);
  EXPECT_EQ(d.create(d.self, unit, &handle), Status::ok);
  EXPECT_EQ(d.create(d.self, unit, &handle), Status::out_of_memory);
  EXPECT_EQ(d.create(d.self, unit, &handle), Status::ok);
  Event event = 0;
  device.fake.fail_any(2);
  EXPECT_EQ(d.event_create(d.self, &event), Status::ok);
  EXPECT_EQ(d.event_destroy(d.self, event), Status::failed);
  EXPECT_EQ(d.event_destroy(d.self, event), Status::ok);
}

TEST(FakeDriver, KnowsWhatComesAfterWhat) {
  FakeDriver::Options options;
  options.instant = false;
  Device device(options);
  const Driver& d = device.d;
  Event event = 0;
  ASSERT_EQ(d.event_create(d.self, &event), Status::ok);
  const auto first = device.fake.work(1);
  ASSERT_EQ(d.event_record(d.self, event, 1), Status::ok);
  const auto second = device.fake.work(1);
  EXPECT_EQ(d.event_query(d.self, event), Status::not_ready);
  EXPECT_TRUE(device.fake.ordered(second, 1));
  EXPECT_FALSE(device.fake.ordered(first, 2));
  ASSERT_EQ(d.stream_wait(d.self, 2, event), Status::ok);
  EXPECT_TRUE(device.fake.ordered(first, 2));
  EXPECT_FALSE(device.fake.ordered(second, 2)) << "recorded before it";
  device.fake.work(2);
  ASSERT_EQ(d.event_record(d.self, event, 2), Status::ok);
  ASSERT_EQ(d.stream_wait(d.self, 3, event), Status::ok);
  EXPECT_TRUE(device.fake.ordered(first, 3)) << "through stream 2";
  ASSERT_EQ(d.event_synchronize(d.self, event), Status::ok);
  EXPECT_TRUE(device.fake.done(first));
  EXPECT_FALSE(device.fake.done(second));
  device.fake.complete(1);
  EXPECT_TRUE(device.fake.done(second));
}

TEST(FakeDriver, AHandleMappedTwiceIsTheSameMemory) {
  FakeDriver::Options options;
  options.backed = true;
  Device device(options);
  const Driver& d = device.d;
  Address at = 0;
  Handle handle = 0;
  ASSERT_NO_FATAL_FAILURE(make(d, at, handle));
  for (const Address where : {at, at + 2 * unit}) {
    ASSERT_EQ(d.map(d.self, where, unit, handle), Status::ok);
    ASSERT_EQ(d.set_access(d.self, where, unit), Status::ok);
  }
  std::memcpy(reinterpret_cast<void*>(at), "hello", 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(at + 2 * unit), "hello");
  EXPECT_EQ(device.fake.behind(at + 1, unit).front(), (FakeDriver::Piece{handle, 1, unit - 1}));
  EXPECT_EQ(device.fake.behind(at, 4 * unit).size(), 2u);
  ASSERT_EQ(d.unmap(d.self, at, unit, handle), Status::ok);
  EXPECT_EQ(device.fake.misuses(), 0u);
  EXPECT_EQ(d.release(d.self, handle), Status::failed) << "still mapped once";
  ASSERT_EQ(d.unmap(d.self, at + 2 * unit, unit, handle), Status::ok);
  EXPECT_EQ(d.release(d.self, handle), Status::ok);
}

TEST(FakeDriver, AHandleOfASynchronousDriverIsMappedOnce) {
  FakeDriver::Options options;
  options.synchronous = true;
  Device device(options);
  const Driver& d = device.d;
  Address at = 0;
  Handle handle = 0;
  ASSERT_NO_FATAL_FAILURE(make(d, at, handle));
  ASSERT_EQ(d.map(d.self, at, unit, handle), Status::ok);
  EXPECT_EQ(d.map(d.self, at + unit, unit, handle), Status::failed);
  EXPECT_EQ(device.fake.misuses(), 1u);
}

TEST(FakeDriver, ADeviceThatLagsIsDoneAfterItsLag) {
  FakeDriver::Options options;
  options.lag = 10;
  Device device(options);
  const Driver& d = device.d;
  Event event = 0;
  ASSERT_EQ(d.event_create(d.self, &event), Status::ok);
  const auto first = device.fake.work(1);
  device.fake.advance(4);
  const auto second = device.fake.work(1);
  ASSERT_EQ(d.event_record(d.self, event, 1), Status::ok);
  device.fake.advance(6);
  EXPECT_TRUE(device.fake.done(first));
  EXPECT_FALSE(device.fake.done(second));
  EXPECT_EQ(d.event_query(d.self, event), Status::not_ready);
  device.fake.advance(4);
  EXPECT_EQ(d.event_query(d.self, event), Status::ok);
  const auto third = device.fake.work(1);
  ASSERT_EQ(d.event_record(d.self, event, 1), Status::ok);
  ASSERT_EQ(d.event_synchronize(d.self, event), Status::ok);
  EXPECT_TRUE(device.fake.done(third));
  EXPECT_EQ(d.now(d.self), 24u) << "time passes while the host waits";
}

TEST(FakeDriver, ItsClockIsTurnedByHand) {
  Device device;
  EXPECT_EQ(device.d.now(device.d.self), 0u);
  device.fake.advance(5);
  EXPECT_EQ(device.d.now(device.d.self), 5u);
}

}  // namespace
}  // namespace cinch::allocator
