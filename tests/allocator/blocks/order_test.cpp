// SPDX-License-Identifier: Apache-2.0
#include "allocator/blocks/order.h"

#include <gtest/gtest.h>

#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

FakeDriver::Options manual() {
  FakeDriver::Options options;
  options.instant = false;
  return options;
}

TEST(Order, AFreeIsIdleOnceAFenceAfterItHasPassed) {
  FakeDriver fake(manual());
  Order order(fake.table());
  const std::uint32_t stream = order.index_of(7);
  const std::uint64_t first = order.number_free(stream);
  fake.work(7);
  order.query(stream);  // records the fence
  const std::uint64_t second = order.number_free(stream);
  EXPECT_FALSE(order.idle(stream, first));
  order.query(stream);
  EXPECT_FALSE(order.idle(stream, first));
  fake.complete(7);
  fake.work(7);
  order.query(stream);
  EXPECT_TRUE(order.idle(stream, first));
  EXPECT_FALSE(order.idle(stream, second)) << "freed after the fence";
  Wait* events = order.outstanding(false);
  order.await(events);
  EXPECT_FALSE(order.idle(stream, second)) << "not noted yet";
  order.finish(events);
  EXPECT_EQ(events, nullptr);
  EXPECT_TRUE(order.idle(stream, second));
  EXPECT_EQ(order.outstanding(false), nullptr) << "all is done";
}

TEST(Order, ASynchronousDriverIsNeverAsked) {
  FakeDriver::Options options;
  options.synchronous = true;
  FakeDriver fake(options);
  Order order(fake.table());
  const std::uint32_t stream = order.index_of(0);
  EXPECT_TRUE(order.idle(stream, order.number_free(stream)));
  order.query(stream);
  EXPECT_TRUE(order.wait_for_stream(stream, order.index_of(1)));
  EXPECT_EQ(fake.calls(), 0u);
}

TEST(Order, EventsAreUsedAgain) {
  FakeDriver fake;
  {
    Order order(fake.table());
    const std::uint32_t stream = order.index_of(0);
    for (int i = 0; i < 10; ++i) order.drop(order.record(stream));
    EXPECT_EQ(fake.calls(Call::event_create), 1u);
    EXPECT_EQ(order.events(), 0u);
  }
  EXPECT_EQ(fake.events(), 0u);
}

TEST(Order, WaitsHappenOnTheDevice) {
  FakeDriver fake(manual());
  Order order(fake.table());
  const std::uint32_t user = order.index_of(1);
  const std::uint32_t next = order.index_of(2);
  const auto work = fake.work(1);
  Wait* list = nullptr;
  ASSERT_TRUE(order.add(list, user));
  EXPECT_FALSE(order.query(list));
  EXPECT_TRUE(order.wait_for(next, list));
  EXPECT_EQ(list, nullptr);
  EXPECT_TRUE(fake.ordered(work, 2));
  EXPECT_FALSE(fake.done(work)) << "the host has not waited";
  EXPECT_EQ(order.waits(), 0u);
}

TEST(Order, AFailedWaitLosesNone) {
  FakeDriver fake(manual());
  Order order(fake.table());
  Wait* list = nullptr;
  std::vector<FakeDriver::Work> work;
  for (const Stream user : {1, 2, 3}) {
    ASSERT_TRUE(order.add(list, order.index_of(user)));
    work.push_back(fake.work(user));
  }
  fake.fail(Call::stream_wait, 2);
  EXPECT_FALSE(order.wait_for(order.index_of(4), list));
  // Somebody else, who never waited for any of them.
  EXPECT_TRUE(order.wait_for(order.index_of(5), list));
  for (const FakeDriver::Work& user : work) EXPECT_TRUE(fake.ordered(user, 5));
  EXPECT_EQ(order.waits(), 0u);
}

TEST(Order, AWaitThatCannotBeRecordedStays) {
  FakeDriver fake(manual());
  Order order(fake.table());
  const std::uint32_t stream = order.index_of(1);
  Wait* list = nullptr;
  ASSERT_TRUE(order.add(list, stream));
  fake.fail(Call::event_record, 1);
  EXPECT_FALSE(order.wait_for(stream, list));
  EXPECT_NE(list, nullptr);
  fake.complete_all();
  EXPECT_TRUE(order.query(list));
  EXPECT_EQ(order.events(), 0u);
}

}  // namespace
}  // namespace cinch::allocator
