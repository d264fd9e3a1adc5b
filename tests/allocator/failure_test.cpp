// SPDX-License-Identifier: Apache-2.0
// Every driver call of a scenario fails in turn: nothing is lost, and memory can be had afterwards.
#include <gtest/gtest.h>

#include "tests/allocator/model.h"

namespace cinch::allocator::test {
namespace {

constexpr std::size_t unit = 64 * kibibyte;

// Misses, stitches, events, takeovers by other streams, releases: all that calls the driver.
void scenario(Model& model) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) model.allocate(random_size(random, unit), i % 2);
  for (int i = 0; i < 25; ++i) model.free(random() % model.blocks.size() % 32);
  model.fake.complete_all();
  model.allocate(30 * unit, 0);  // stitched
  for (int i = 0; i < 5 && !model.blocks.empty(); ++i) {
    model.use_elsewhere(model.blocks.size() - 1, 2);
    model.free(model.blocks.size() - 1);
    if (model.blocks.empty()) continue;
    model.use_elsewhere(0, 3);
    model.free(0);
  }
  model.core.release_idle();
  for (int i = 0; i < 60; ++i) model.allocate(7 * unit, 1);  // to the limit
  while (model.blocks.size() > 10) model.free(0);
  model.allocate(60 * unit, 2);  // another stream's memory
  model.allocate(100 * unit, 0);
  model.core.release_idle();
}

void fail_every_call_in_turn(const Config& config) {
  std::uint64_t calls = 0;
  {
    Model model(tight_device(unit), config);
    scenario(model);
    calls = model.fake.calls();
    model.finish();
    ASSERT_EQ(model.fault, "");
    EXPECT_GT(model.core.stats().stitches, 0u);
    EXPECT_GT(model.core.stats().foreign, 0u);
  }
  ASSERT_GT(calls, 300u);
  for (std::uint64_t nth = 1; nth <= calls; ++nth) {
    Model model(tight_device(unit), config);
    model.fake.fail_any(nth);
    scenario(model);
    model.check();
    ASSERT_EQ(model.fault, "") << "call " << nth;
    model.finish();
    ASSERT_EQ(model.fault, "") << "call " << nth << ", at the end";
  }
}

TEST(Failure, EveryCallInTurn) {
  fail_every_call_in_turn(tight_config(unit));
}

TEST(Failure, EveryCallInTurnWithFronts) {
  fail_every_call_in_turn(fronted_config(unit));
}

TEST(Failure, EveryCallAlwaysFromSomePointOn) {
  for (std::size_t call = 0; call < call_count; ++call) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Model model(tight_device(unit), tight_config(unit));
      std::mt19937_64 random(seed);
      for (int i = 0; i < 200; ++i) {
        model.fake.fail(static_cast<Call>(call), 1 + (seed % 3));
        random_step(model, random, unit, 60);
      }
      model.check();
      ASSERT_EQ(model.fault, "") << "call " << call << ", seed " << seed;
      model.finish();
      ASSERT_EQ(model.fault, "") << "call " << call << ", at the end";
    }
  }
}

TEST(Failure, ManyAtOnce) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Model model(tight_device(unit), tight_config(unit));
    model.fake.fail_randomly(0.2, seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i) random_step(model, random, unit, 100);
    model.check();
    ASSERT_EQ(model.fault, "") << "seed " << seed;
    model.finish();
    ASSERT_EQ(model.fault, "") << "seed " << seed << ", at the end";
  }
}

}  // namespace
}  // namespace cinch::allocator::test
