// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/in_flight.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

struct Event final : InFlight::Moment {
  bool happened() const noexcept override {
    ++asked;
    return came;
  }
  void wait() const override { came = comes; }
  mutable bool came = false;
  bool comes = true;  ///< the device has not failed
  mutable int asked = 0;
};

TEST(InFlight, WhatHasNoRoomIsRefusedUntilTheOldestIsDone) {
  InFlight in_flight;
  const auto first = std::make_shared<Event>();
  const auto second = std::make_shared<Event>();
  ASSERT_TRUE(in_flight.begin(0, 60, 100));
  in_flight.enqueued(0, 60, first);
  ASSERT_TRUE(in_flight.begin(0, 40, 100));
  in_flight.enqueued(0, 40, second);
  EXPECT_FALSE(in_flight.begin(0, 1, 100));
  second->came = true;
  EXPECT_FALSE(in_flight.begin(0, 1, 100)) << "a stream's work is done in order";
  first->came = true;
  EXPECT_TRUE(in_flight.begin(0, 100, 100));
  EXPECT_EQ(in_flight.figures(0).most_bytes, 100U);
  EXPECT_EQ(in_flight.figures(0).refused, 2U);
}

TEST(InFlight, WaitingMakesRoomUnlessTheDeviceFailed) {
  InFlight in_flight;
  EXPECT_FALSE(in_flight.await_oldest(0)) << "nothing to wait for";
  const auto first = std::make_shared<Event>();
  const auto second = std::make_shared<Event>();
  for (const auto& work : {first, second}) {
    ASSERT_TRUE(in_flight.begin(0, 50, 100));
    in_flight.enqueued(0, 50, work);
  }
  EXPECT_TRUE(in_flight.await_oldest(0));
  EXPECT_TRUE(in_flight.has_room(0, 50, 100));
  EXPECT_FALSE(in_flight.has_room(0, 51, 100)) << "it waits for no more than the oldest";
  second->comes = false;
  EXPECT_FALSE(in_flight.await_oldest(0));
}

TEST(InFlight, RoomIsWhatBeginningWouldFind) {
  InFlight in_flight;
  const auto work = std::make_shared<Event>();
  EXPECT_TRUE(in_flight.has_room(0, 200, 100)) << "alone";
  ASSERT_TRUE(in_flight.begin(0, 60, 100));
  in_flight.enqueued(0, 60, work);
  EXPECT_TRUE(in_flight.has_room(0, 40, 100));
  EXPECT_FALSE(in_flight.has_room(0, 41, 100));
  EXPECT_TRUE(in_flight.has_room(1, 41, 100)) << "another device";
  work->came = true;
  EXPECT_TRUE(in_flight.has_room(0, 41, 100));
  EXPECT_EQ(in_flight.figures(0).refused, 0U) << "nobody was refused";
}

TEST(InFlight, MostCountsWhatNobodyLookedForYet) {
  InFlight in_flight;
  for (const bool looks : {false, true}) {
    const auto work = std::make_shared<Event>();
    ASSERT_TRUE(in_flight.begin(0, 30, 100));
    in_flight.enqueued(0, 30, work);
    work->came = true;
    if (looks) in_flight.look(0);
  }
  ASSERT_TRUE(in_flight.begin(0, 30, 100));
  EXPECT_EQ(in_flight.figures(0).most_bytes, 60U);
}

TEST(InFlight, WhatIsLargerThanTheLimitGoesAlone) {
  InFlight in_flight;
  const auto large = std::make_shared<Event>();
  ASSERT_TRUE(in_flight.begin(0, 101, 100));
  in_flight.enqueued(0, 101, large);
  EXPECT_FALSE(in_flight.begin(0, 101, 100));
  EXPECT_FALSE(in_flight.begin(0, 1, 100));
  large->came = true;
  EXPECT_TRUE(in_flight.begin(0, 1, 100));
  EXPECT_FALSE(in_flight.begin(0, 101, 100)) << "beside another";
}

TEST(InFlight, WhatWasBegunCountsUntilItIsGivenUp) {
  InFlight in_flight;
  ASSERT_TRUE(in_flight.begin(0, 100, 100));
  EXPECT_FALSE(in_flight.begin(0, 1, 100));
  in_flight.enqueued(0, 100, nullptr);
  EXPECT_TRUE(in_flight.begin(0, 100, 100));
}

TEST(InFlight, DevicesHaveRoomOfTheirOwn) {
  InFlight in_flight;
  ASSERT_TRUE(in_flight.begin(0, 100, 100));
  EXPECT_TRUE(in_flight.begin(1, 100, 100));
  EXPECT_EQ(in_flight.figures(7).most_bytes, 0U);
}

TEST(InFlight, NothingIsAskedWhileThereIsRoom) {
  InFlight in_flight;
  const auto event = std::make_shared<Event>();
  for (int i = 0; i < 32; ++i) {
    ASSERT_TRUE(in_flight.begin(0, 1, 1000));
    in_flight.enqueued(0, 1, event);
  }
  EXPECT_EQ(event->asked, 0);
}

TEST(InFlight, EventsOfWorkThatIsDoneAreNotKept) {
  InFlight in_flight;
  std::vector<std::weak_ptr<Event>> events;
  for (int i = 0; i < 1000; ++i) {
    auto event = std::make_shared<Event>();
    event->came = true;
    events.push_back(event);
    ASSERT_TRUE(in_flight.begin(0, 1, 1 << 30));
    in_flight.enqueued(0, 1, std::move(event));
  }
  EXPECT_LE(std::ranges::count_if(events, [](const auto& event) { return !event.expired(); }), 64);
}

TEST(InFlight, TheLimitHoldsInAnyOrderOfEvents) {
  std::mt19937 random(7);
  InFlight in_flight;
  struct Given {
    std::shared_ptr<Event> event;
    std::size_t bytes;
  };
  std::vector<Given> given;
  std::size_t done = 0;
  std::uint64_t under_way = 0;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && done < given.size()) {
      given[done].event->came = true;
      under_way -= given[done++].bytes;
      continue;
    }
    const std::size_t bytes = random() % 300;
    const bool fits = under_way + bytes <= 1000;
    ASSERT_EQ(in_flight.begin(0, bytes, 1000), fits);
    refused += fits ? 0 : 1;
    if (!fits) continue;
    auto event = std::make_shared<Event>();
    in_flight.enqueued(0, bytes, event);
    given.push_back({std::move(event), bytes});
    under_way += bytes;
  }
  EXPECT_GT(refused, 100);
  EXPECT_LE(in_flight.figures(0).most_bytes, 1000U);
}

}  // namespace
}  // namespace cinch::hooks
