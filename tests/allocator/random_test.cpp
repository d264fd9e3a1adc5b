// SPDX-License-Identifier: Apache-2.0
// Random operations over streams, events and injected failures, against a second account of
// everything. CINCH_ALLOCATOR_OPS is how many (10000000 takes minutes), CINCH_ALLOCATOR_SEED which.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/allocator/model.h"

namespace cinch::allocator::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::size_t unit = 64 * kibibyte;

void run(const FakeDriver::Options& options, std::uint64_t operations, std::uint64_t seed) {
  constexpr std::uint64_t operations_per_device = 50'000;
  constexpr std::uint64_t check_every = 500;
  std::mt19937_64 random(seed);
  std::uint64_t done = 0;
  std::uint64_t misses = 0;
  std::uint64_t stitches = 0;
  while (done < operations) {
    Model model(options, tight_config(unit));
    const std::size_t most_blocks = 20 + random() % 400;
    for (std::uint64_t i = 0; i < operations_per_device && done < operations; ++i, ++done) {
      random_step(model, random, unit, most_blocks);
      if (i % check_every == 0) model.check();
      ASSERT_EQ(model.fault, "") << "seed " << seed << ", operation " << done;
    }
    misses += model.core.stats().misses;
    stitches += model.core.stats().stitches;
    model.finish();
    ASSERT_EQ(model.fault, "") << "seed " << seed << ", at the end, operation " << done;
  }
  // The test would prove little if what is rare never came about.
  EXPECT_GT(misses, operations / 100);
  EXPECT_GT(stitches, operations / 2000);
}

TEST(Random, InvariantsHoldOverStreamsEventsAndFailures) {
  run(tight_device(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000),
      number_from("CINCH_ALLOCATOR_SEED", 1));
}

TEST(Random, InvariantsHoldWithASynchronousDriver) {
  FakeDriver::Options options = tight_device(unit);
  options.synchronous = true;
  options.instant = true;
  run(options, number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 4,
      number_from("CINCH_ALLOCATOR_SEED", 1) + 1000);
}

}  // namespace
}  // namespace cinch::allocator::test
