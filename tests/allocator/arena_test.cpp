// SPDX-License-Identifier: Apache-2.0
#include "allocator/arena.h"

#include <map>
#include <random>

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
  explicit Fixture(std::size_t memory = gibibyte)
      : fake(delayed(memory)), core(fake.table()), arena(core) {}
  ~Fixture() {
    check();
    EXPECT_EQ(fake.misuses(), 0u);
  }
  void check() {
    std::string fault;
    EXPECT_TRUE(arena.verify(fault)) << fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
  }
  // As a decoder frees: as of its last work.
  void free(Address address, Stream stream) {
    Moment* moment = core.moment(stream);
    EXPECT_TRUE(arena.free(address, moment));
    core.drop(moment);
  }
  FakeDriver fake;
  Core core;
  Arena arena;
};

TEST(Arena, CutsPiecesOneAfterTheOther) {
  Fixture f;
  const Address a = f.arena.allocate(1000, 1);
  const Address b = f.arena.allocate(5000, 1);
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(f.arena.figures().segments, 1u);
  EXPECT_EQ(f.arena.figures().reserved, 32 * mebibyte);
  EXPECT_TRUE(f.arena.free(a, nullptr));
  EXPECT_FALSE(f.arena.free(a, nullptr)) << "twice";
  EXPECT_FALSE(f.arena.free(b + 512, nullptr));
  f.arena.free(b, nullptr);
}

TEST(Arena, WastesAnEighthAtMost) {
  Fixture f;
  for (std::size_t bytes = 1; bytes < 40 * mebibyte; bytes += bytes / 3 + 1) {
    const std::size_t before = f.arena.figures().used;
    const Address a = f.arena.allocate(bytes, 1);
    ASSERT_NE(a, 0u) << bytes;
    const std::size_t used = f.arena.figures().used - before;
    EXPECT_GE(used, bytes);
    EXPECT_LE(used, bytes + bytes / 8 + 512) << bytes;
    f.arena.free(a, nullptr);
  }
}

TEST(Arena, AFreedPieceServesItsClass) {
  Fixture f;
  const Address a = f.arena.allocate(100'000, 1);
  const Address wall = f.arena.allocate(512, 1);
  f.arena.free(a, nullptr);
  EXPECT_EQ(f.arena.allocate(99'000, 1), a);
  f.arena.free(a, nullptr);
  f.arena.free(wall, nullptr);
  EXPECT_EQ(f.arena.figures().used, 0u);
}

TEST(Arena, TheNextUserWaitsOnTheDeviceAndTheHostDoesNot) {
  Fixture f;
  const Address a = f.arena.allocate(100'000, 1);
  const Address wall = f.arena.allocate(512, 1);
  const FakeDriver::Work decoding = f.fake.work(2);
  f.free(a, 2);
  EXPECT_FALSE(f.fake.ordered(decoding, 1));
  EXPECT_EQ(f.arena.allocate(100'000, 1), a);
  EXPECT_TRUE(f.fake.ordered(decoding, 1));
  EXPECT_EQ(f.fake.calls(Call::event_synchronize), 0u);
  // And so where the segment starts anew.
  const FakeDriver::Work reading = f.fake.work(3);
  f.free(a, 3);
  f.free(wall, 1);
  EXPECT_EQ(f.arena.allocate(2 * mebibyte, 4), a) << "from the beginning";
  EXPECT_TRUE(f.fake.ordered(reading, 4));
  EXPECT_EQ(f.fake.calls(Call::event_synchronize), 0u);
}

TEST(Arena, AnotherStreamComesAfterWhatTheSegmentWasBefore) {
  Fixture f;
  const Address block = f.core.allocate(32 * mebibyte, 1);
  const FakeDriver::Work before = f.fake.work(1);
  f.core.free(block);
  ASSERT_EQ(f.arena.allocate(1000, 1), block);
  EXPECT_FALSE(f.fake.ordered(before, 2));
  ASSERT_EQ(f.arena.allocate(1000, 2), block + 1024);
  EXPECT_TRUE(f.fake.ordered(before, 2));
}

TEST(Arena, ALargePieceHasASegmentOfItsOwn) {
  Fixture f;
  const Address a = f.arena.allocate(100 * mebibyte, 1);
  EXPECT_GE(f.arena.figures().reserved, 100 * mebibyte);
  EXPECT_LE(f.arena.figures().reserved, 113 * mebibyte);
  EXPECT_EQ(f.arena.figures().segments, 1u);
  f.arena.free(a, nullptr);
}

TEST(Arena, IdleSegmentsGoBackAndTheLastPeriodsNeedStays) {
  Fixture f;
  const auto step = [&f](int pieces) {
    std::vector<Address> held;
    for (int i = 0; i < pieces; ++i) held.push_back(f.arena.allocate(8 * mebibyte, 1));
    for (const Address a : held) f.free(a, 2);
    f.arena.new_period();
  };
  step(16);
  EXPECT_EQ(f.arena.figures().reserved, 128 * mebibyte) << "the next step needs them";
  step(2);
  EXPECT_EQ(f.arena.figures().reserved, 128 * mebibyte);
  step(2);
  EXPECT_LE(f.arena.figures().reserved, 64 * mebibyte);
  f.arena.new_period();
  f.arena.new_period();
  EXPECT_EQ(f.arena.figures().reserved, 0u) << "nothing was used";
  EXPECT_EQ(f.core.stats().allocated, 0u);
  step(1);
  EXPECT_EQ(f.arena.release_idle(), 32 * mebibyte);
}

TEST(Arena, MakesDoWithLessThanASegment) {
  Fixture f(8 * mebibyte);
  const Address a = f.arena.allocate(3 * mebibyte, 1);
  EXPECT_NE(a, 0u);
  EXPECT_EQ(f.arena.allocate(30 * mebibyte, 1), 0u);
  EXPECT_EQ(f.arena.allocate(SIZE_MAX, 1), 0u);
  f.arena.free(a, nullptr);
}

TEST(Arena, MayBeAskedForMemoryByItsOwnRequest) {
  Fixture f(64 * mebibyte);
  f.core.set_reclaim([&f](std::size_t) { return f.arena.release_idle(); });
  const Address a = f.arena.allocate(30 * mebibyte, 1);
  f.arena.free(a, nullptr);
  f.fake.complete_all();
  const Address b = f.arena.allocate(50 * mebibyte, 1);
  EXPECT_NE(b, 0u) << "the idle segment made room";
  f.arena.free(b, nullptr);
  f.core.set_reclaim(nullptr);
}

// Random pieces, streams, moments and failures: no overlap, nothing used before it may be, nothing
// lost.
TEST(Arena, InvariantsHold) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    FakeDriver fake(delayed(96 * mebibyte));
    Core core(fake.table());
    struct Left {
      std::size_t bytes;
      FakeDriver::Work work;
    };
    std::map<Address, std::size_t> live;
    std::map<Address, Left> left;
    {
      Arena arena(core, {.segment_bytes = 8 * mebibyte, .quantum = 512});
      for (int i = 0; i < 600; ++i) {
        const std::uint64_t kind = random() % 100;
        const Stream stream = 1 + random() % 3;
        if (kind < 50) {
          const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 12 * mebibyte : 300'000);
          const Address a = arena.allocate(bytes, stream);
          if (a == 0) continue;
          for (const auto& [other, size] : live) {
            ASSERT_TRUE(a + bytes <= other || other + size <= a) << "overlap, seed " << seed;
          }
          for (auto at = left.begin(); at != left.end();) {
            const bool meets = at->first < a + bytes && a < at->first + at->second.bytes;
            ASSERT_TRUE(!meets || fake.ordered(at->second.work, stream))
                << "too early, seed " << seed;
            at = meets ? left.erase(at) : std::next(at);
          }
          live[a] = bytes;
        } else if (kind < 92) {
          if (live.empty()) continue;
          auto at = std::next(live.begin(), static_cast<long>(random() % live.size()));
          const FakeDriver::Work work = fake.work(stream);
          Moment* moment = core.moment(stream);
          if (moment == nullptr) continue;  // injected: it is freed later
          left.insert_or_assign(at->first, Left{at->second, work});
          ASSERT_TRUE(arena.free(at->first, moment));
          core.drop(moment);
          live.erase(at);
        } else if (kind < 95) {
          fake.complete(stream);
        } else if (kind < 97) {
          fake.fail(static_cast<Call>(random() % call_count), 1 + random() % 5);
        } else if (kind < 99) {
          arena.new_period();
        } else {
          arena.release_idle();
        }
        std::string fault;
        ASSERT_TRUE(arena.verify(fault)) << fault << ", seed " << seed;
      }
      fake.stop_failing();
      for (const auto& [a, bytes] : live) ASSERT_TRUE(arena.free(a, nullptr));
      fake.complete_all();
      arena.release_idle();
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
