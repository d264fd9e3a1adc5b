// SPDX-License-Identifier: Apache-2.0
// Blocks that were freed while other streams use them: when they become free.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

FakeDriver::Options delayed() {
  FakeDriver::Options options;
  options.instant = false;
  return options;
}

class PendingTest : public testing::Test {
 protected:
  ~PendingTest() override {
    std::string fault;
    EXPECT_TRUE(core_.verify(fault)) << fault;
    EXPECT_EQ(fake_.misuses(), 0u);
  }
  /// Frees a block of stream 0 that `stream` uses.
  void suspend(Stream stream) {
    const Address block = core_.allocate(4 * mebibyte, 0);
    fake_.work(stream);
    core_.record_stream(block, stream);
    core_.free(block);
  }
  /// A request that a free block serves.
  void hit() { core_.free(core_.allocate(100, 0)); }
  std::size_t pending() const { return core_.stats().pending; }

  FakeDriver fake_{delayed()};
  Core core_{fake_.table(), Config::device()};
};

TEST_F(PendingTest, BecomesFreeAtTheNextRequestWhichNeedsNoMiss) {
  hit();
  suspend(1);
  const std::uint64_t misses = core_.stats().misses;
  hit();
  EXPECT_EQ(pending(), 4 * mebibyte);
  fake_.complete(1);
  hit();
  EXPECT_EQ(pending(), 0u);
  EXPECT_EQ(core_.stats().misses, misses);
}

TEST_F(PendingTest, ARequestAsksForTheOldestOnly) {
  hit();
  const Address blocks[] = {core_.allocate(4 * mebibyte, 0), core_.allocate(4 * mebibyte, 0),
                            core_.allocate(4 * mebibyte, 0)};
  for (const Address block : blocks) {
    fake_.work(1);
    core_.record_stream(block, 1);
    core_.free(block);
  }
  const std::uint64_t queries = fake_.calls(Call::event_query);
  hit();
  EXPECT_EQ(fake_.calls(Call::event_query), queries + 1);
}

TEST_F(PendingTest, IsNotAskedForInACapture) {
  hit();
  suspend(1);
  fake_.complete(1);
  core_.pause();
  hit();
  EXPECT_EQ(pending(), 4 * mebibyte);
  core_.resume();
  hit();
  EXPECT_EQ(pending(), 0u);
}

TEST_F(PendingTest, OthersGoAheadOfOneThatIsNotDone) {
  hit();
  const Address blocks[] = {core_.allocate(4 * mebibyte, 0), core_.allocate(6 * mebibyte, 0),
                            core_.allocate(8 * mebibyte, 0)};
  for (const Stream stream : {1, 2, 3}) {
    fake_.work(stream);
    core_.record_stream(blocks[stream - 1], stream);
    core_.free(blocks[stream - 1]);
  }
  fake_.complete(2);
  // A miss, for which 6 MiB are free by now.
  EXPECT_EQ(core_.allocate(6 * mebibyte, 0), blocks[1]);
  fake_.complete_all();
  hit();
  EXPECT_EQ(pending(), 0u);
}

// As with a stash that encodes on a stream of its own, while events are late.
TEST(PendingBlocks, StepsReserveNoMoreThanTheFirstOnes) {
  constexpr std::size_t layers = 40;
  FakeDriver::Options options;
  options.event_delay = 2;
  FakeDriver fake(options);
  Core core(fake.table(), Config::device());
  std::mt19937_64 random(1);
  std::vector<std::size_t> sizes(layers);
  for (auto& size : sizes) size = 1 + random() % (400 * kibibyte);
  std::vector<Address> encoded(layers);
  const auto free_used_by = [&](Address block, Stream stream) {
    fake.work(stream);
    core.record_stream(block, stream);
    core.free(block);
  };
  const auto step = [&] {
    for (std::size_t i = 0; i < layers; ++i) {
      const Address raw = core.allocate(sizes[i], 0);
      encoded[i] = core.allocate(sizes[i] / 2, 1);
      free_used_by(raw, 1);
    }
    for (std::size_t i = layers; i-- > 0;) {
      const Address decoded = core.allocate(sizes[i], 0);
      free_used_by(encoded[i], 0);
      core.free(decoded);
    }
  };
  for (int i = 0; i < 5; ++i) step();
  const std::size_t reserved = core.stats().reserved;
  for (int i = 0; i < 200; ++i) step();
  EXPECT_EQ(core.stats().reserved, reserved);
  EXPECT_LE(core.stats().reserved, core.stats().peak_allocated + 4 * mebibyte);
}

}  // namespace
}  // namespace cinch::allocator
