// SPDX-License-Identifier: Apache-2.0
#include "allocator/arena.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/fake_driver.h"

namespace cinch::allocator {
namespace {

FakeDriver::Options delayed(std::size_t bytes) {
  FakeDriver::Options options;
  options.memory_bytes = bytes;
  options.instant = false;
  return options;
}

struct Fixture {
  explicit Fixture(std::size_t memory = gibibyte, const Arena::Config& config = {})
      : fake(delayed(memory)), core(fake.table()), arena(core, config) {}
  ~Fixture() {
    check();
    EXPECT_EQ(fake.misuses(), 0u);
  }
  void check() {
    std::string fault;
    EXPECT_TRUE(arena.verify(fault)) << fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
  }
  // As a decoder frees: after its work.
  void free(Address address, Stream stream) {
    EXPECT_TRUE(arena.record_stream(address, stream));
    EXPECT_TRUE(arena.free(address));
  }
  std::uint64_t driver_calls() const {
    std::uint64_t calls = 0;
    for (std::size_t call = 0; call < call_count; ++call)
      calls += fake.calls(static_cast<Call>(call));
    return calls;
  }
  FakeDriver fake;
  Core core;
  Arena arena;
};

// Large enough for a test's pieces.
const Arena::Config one_segment = {.least_segment = 8 * mebibyte};

TEST(Arena, CutsPiecesOneAfterTheOther) {
  Fixture f;
  const Address a = f.arena.allocate(1000, 1);
  const Address b = f.arena.allocate(5000, 1);
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(f.arena.figures().segments, 1u);
  EXPECT_EQ(f.arena.figures().reserved, 64 * kibibyte);
  EXPECT_EQ(f.arena.figures().used, 1024u + 5120u);
  EXPECT_TRUE(f.arena.free(a));
  EXPECT_FALSE(f.arena.free(a)) << "twice";
  EXPECT_FALSE(f.arena.free(b + 512));
  EXPECT_FALSE(f.arena.record_stream(a, 1));
  EXPECT_TRUE(f.arena.free(b));
  EXPECT_EQ(f.arena.figures().reserved, 0u) << "an idle segment goes back";
  EXPECT_EQ(f.core.stats().allocated, 0u);
}

TEST(Arena, CutsTheLastPiecesBytesAgain) {
  Fixture f(gibibyte, one_segment);
  const Address first = f.arena.allocate(512, 1);
  const Address a = f.arena.allocate(100'000, 1);
  const Address b = f.arena.allocate(50'000, 1);
  f.arena.free(b);
  f.arena.free(a);
  EXPECT_EQ(f.arena.allocate(150'000, 1), a) << "whatever the sizes";
  f.arena.free(a);
  f.arena.free(first);
}

TEST(Arena, AFreedPieceServesItsClass) {
  Fixture f(gibibyte, one_segment);
  const Address a = f.arena.allocate(100'000, 1);
  const Address wall = f.arena.allocate(512, 1);
  f.arena.free(a);
  EXPECT_EQ(f.arena.allocate(92'000, 1), a);
  f.arena.free(a);
  EXPECT_NE(f.arena.allocate(101'000, 1), a) << "too small";
  EXPECT_NE(f.arena.allocate(50'000, 1), a) << "half of it would be lost";
  EXPECT_EQ(f.arena.figures().used, 512u + 101'376u + 50'176u);
  f.arena.free(wall);
}

// Where much is free that a request can't have, it takes no more than it needs.
TEST(Arena, SegmentsGrowWithWhatIsUsed) {
  Fixture f;
  std::vector<Address> held;
  for (int i = 0; i < 3000; ++i) {
    held.push_back(f.arena.allocate(300'000, 1));
    const Arena::Figures now = f.arena.figures();
    ASSERT_LE(now.reserved, now.used + now.used / 8 + 2 * mebibyte) << i;
  }
  EXPECT_LT(f.arena.figures().segments, 120u);
  for (std::size_t i = 0; i < held.size(); i += 2) f.arena.free(held[i]);
  const std::size_t before = f.arena.figures().reserved;
  const Address other = f.arena.allocate(10 * mebibyte, 1);
  EXPECT_LE(f.arena.figures().reserved, before + 12 * mebibyte);
  f.arena.free(other);
  for (std::size_t i = 1; i < held.size(); i += 2) f.arena.free(held[i]);
  EXPECT_EQ(f.core.stats().allocated, 0u);
}

TEST(Arena, TheNextUserWaitsOnTheDeviceAndTheHostDoesNot) {
  Fixture f(gibibyte, one_segment);
  const Address wall = f.arena.allocate(512, 1);
  const Address a = f.arena.allocate(100'000, 1);
  const Address other_wall = f.arena.allocate(512, 1);
  const FakeDriver::Work decoding = f.fake.work(2);
  f.free(a, 2);
  EXPECT_FALSE(f.fake.ordered(decoding, 1));
  EXPECT_EQ(f.arena.allocate(100'000, 1), a);
  EXPECT_TRUE(f.fake.ordered(decoding, 1));
  // And so where its bytes are cut again.
  const FakeDriver::Work reading = f.fake.work(3);
  f.free(a, 3);
  f.free(other_wall, 1);
  EXPECT_EQ(f.arena.allocate(mebibyte, 4), a);
  EXPECT_TRUE(f.fake.ordered(reading, 4));
  // And in the core's hands.
  const FakeDriver::Work last = f.fake.work(5);
  f.free(a, 5);
  f.arena.free(wall);
  EXPECT_EQ(f.arena.figures().segments, 0u);
  EXPECT_NE(f.core.allocate(8 * mebibyte, 6), 0u);
  EXPECT_TRUE(f.fake.ordered(last, 6) || f.fake.created_bytes() > 8 * mebibyte);
  EXPECT_EQ(f.fake.calls(Call::event_synchronize), 0u);
}

TEST(Arena, AnotherStreamComesAfterWhatTheSegmentWasBefore) {
  Fixture f(gibibyte, one_segment);
  const Address block = f.core.allocate(8 * mebibyte, 1);
  const FakeDriver::Work before = f.fake.work(1);
  f.core.free(block);
  ASSERT_EQ(f.arena.allocate(1000, 1), block);
  EXPECT_FALSE(f.fake.ordered(before, 2));
  ASSERT_EQ(f.arena.allocate(1000, 2), block + 1024);
  EXPECT_TRUE(f.fake.ordered(before, 2));
}

TEST(Arena, AStepOfOneStreamMakesNoCallOfTheDriver) {
  Fixture f;
  std::uint64_t before = 0;
  for (int step = 0; step < 4; ++step) {
    before = f.driver_calls();
    std::vector<Address> held;
    for (std::size_t i = 0; i < 500; ++i)
      held.push_back(f.arena.allocate(1000 + 997 * i % 90'000, 1));
    while (!held.empty()) {
      f.arena.free(held.back());
      held.pop_back();
    }
  }
  EXPECT_EQ(f.driver_calls(), before);
}

TEST(Arena, OneEventServesAllThatAnotherStreamFreedBefore) {
  Fixture f(gibibyte, one_segment);
  std::vector<Address> held;
  for (int i = 0; i < 40; ++i) held.push_back(f.arena.allocate(10'000, 1));
  f.fake.work(2);
  for (int i = 0; i < 39; ++i) f.free(held[static_cast<std::size_t>(i)], 2);
  const std::uint64_t records = f.fake.calls(Call::event_record);
  const std::uint64_t waits = f.fake.calls(Call::stream_wait);
  for (int i = 0; i < 39; ++i) f.arena.allocate(10'000, 1);
  EXPECT_EQ(f.fake.calls(Call::event_record), records + 1);
  EXPECT_EQ(f.fake.calls(Call::stream_wait), waits + 1);
}

TEST(Arena, NoEventIsRecordedWhileTheCoreIsPaused) {
  Fixture f(gibibyte, one_segment);
  const Address wall = f.arena.allocate(512, 1);
  const Address a = f.arena.allocate(10'000, 1);
  f.free(a, 2);
  f.core.pause();
  const std::uint64_t records = f.fake.calls(Call::event_record);
  const Address b = f.arena.allocate(10'000, 1);
  EXPECT_NE(b, a) << "what the other stream freed";
  EXPECT_NE(b, 0u);
  EXPECT_EQ(f.fake.calls(Call::event_record), records);
  f.core.resume();
  f.arena.free(b);
  f.arena.free(wall);
}

TEST(Arena, ManyStreams) {
  Fixture f(gibibyte, one_segment);
  const Address wall = f.arena.allocate(512, 1);
  for (Stream stream = 1; stream < 100; ++stream) {
    const Address a = f.arena.allocate(10'000, stream);
    ASSERT_EQ(a, wall + 512);
    const FakeDriver::Work reading = f.fake.work(200 - stream);
    f.free(a, 200 - stream);
    ASSERT_EQ(f.arena.allocate(10'000, stream + 300), a);
    EXPECT_TRUE(f.fake.ordered(reading, stream + 300));
    f.arena.free(a);
  }
  f.arena.free(wall);
}

TEST(Arena, ALargePieceHasASegmentOfItsOwn) {
  Fixture f;
  const Address a = f.arena.allocate(100 * mebibyte, 1);
  EXPECT_EQ(f.arena.figures().reserved, 100 * mebibyte);
  EXPECT_EQ(f.arena.figures().segments, 1u);
  f.arena.free(a);
}

TEST(Arena, MakesDoWithLessThanASegment) {
  Fixture f(8 * mebibyte, {.least_segment = 32 * mebibyte});
  const Address a = f.arena.allocate(3 * mebibyte, 1);
  EXPECT_NE(a, 0u);
  EXPECT_EQ(f.arena.allocate(30 * mebibyte, 1), 0u);
  EXPECT_EQ(f.arena.allocate(SIZE_MAX, 1), 0u);
  f.arena.free(a);
}

TEST(Arena, MayBeAskedForMemoryByItsOwnRequest) {
  Fixture f(64 * mebibyte);
  Address a = f.arena.allocate(30 * mebibyte, 1);
  f.core.set_reclaim([&](std::size_t) -> std::size_t {
    return std::exchange(a, 0) != 0 && f.arena.free(f.core.snapshot()[0].address) ? 30 * mebibyte
                                                                                  : 0;
  });
  f.fake.complete_all();
  const Address b = f.arena.allocate(50 * mebibyte, 1);
  EXPECT_NE(b, 0u) << "the piece made room";
  f.arena.free(b);
  f.core.set_reclaim(nullptr);
}

// Random pieces, streams and failures: no overlap, nothing used before it may be, nothing lost.
TEST(Arena, InvariantsHold) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    FakeDriver fake(delayed(96 * mebibyte));
    Core core(fake.table());
    struct Left {
      std::size_t bytes;
      FakeDriver::Work work;
    };
    std::map<Address, std::size_t> live;
    std::multimap<Address, Left> left;
    const auto check_and_forget = [&](Address a, std::size_t bytes, Stream stream) {
      for (auto at = left.begin(); at != left.end();) {
        const bool meets = at->first < a + bytes && a < at->first + at->second.bytes;
        ASSERT_TRUE(!meets || fake.ordered(at->second.work, stream)) << "too early, seed " << seed;
        at = meets ? left.erase(at) : std::next(at);
      }
    };
    {
      Arena arena(core, {.most_segment = 8 * mebibyte});
      for (int i = 0; i < 600; ++i) {
        const std::uint64_t kind = random() % 100;
        const Stream stream = 1 + random() % 3;
        if (kind < 48) {
          const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 12 * mebibyte : 300'000);
          const Address a = arena.allocate(bytes, stream);
          if (a == 0) continue;
          for (const auto& [other, size] : live) {
            ASSERT_TRUE(a + bytes <= other || other + size <= a) << "overlap, seed " << seed;
          }
          check_and_forget(a, bytes, stream);
          live[a] = bytes;
        } else if (kind < 90) {
          if (live.empty()) continue;
          auto at = std::next(live.begin(), static_cast<long>(random() % live.size()));
          const std::uint64_t readers = random() % 3;
          for (std::uint64_t reader = 0; reader < readers; ++reader) {
            const Stream by = 1 + random() % 4;
            ASSERT_TRUE(arena.record_stream(at->first, by));
            left.emplace(at->first, Left{at->second, fake.work(by)});
          }
          ASSERT_TRUE(arena.free(at->first));
          live.erase(at);
        } else if (kind < 93) {
          // The program gets what segments were.
          const std::size_t bytes = 1 + random() % (4 * mebibyte);
          const Address a = core.allocate(bytes, stream);
          if (a == 0) continue;
          check_and_forget(a, bytes, stream);
          left.emplace(a, Left{bytes, fake.work(stream)});
          ASSERT_TRUE(core.free(a));
        } else if (kind < 96) {
          fake.complete(stream);
        } else if (kind < 98) {
          fake.fail(static_cast<Call>(random() % call_count), 1 + random() % 5);
        } else {
          core.release_idle();
        }
        std::string fault;
        ASSERT_TRUE(arena.verify(fault)) << fault << ", seed " << seed;
      }
      fake.stop_failing();
      for (const auto& [a, bytes] : live) ASSERT_TRUE(arena.free(a));
      fake.complete_all();
      EXPECT_EQ(arena.figures().reserved, 0u);
    }
    core.release_idle();
    EXPECT_EQ(core.stats().allocated, 0u);
    EXPECT_EQ(fake.created_bytes(), 0u);
    EXPECT_EQ(fake.misuses(), 0u);
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
  }
}

}  // namespace
}  // namespace cinch::allocator
