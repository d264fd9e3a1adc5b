// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/mixed_precision.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

using Bits = std::vector<std::uint8_t>;
using Items = std::vector<PrecisionItem>;

double used(const Items& items, const Bits& bits) {
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) sum += items[i].size * bits[i];
  return sum;
}

/// The sum that allocate_bits minimizes.
double precision_cost(const Items& items, const Bits& bits) {
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const double levels = (1 << bits[i]) - 1;
    sum += items[i].weight / (levels * levels);
  }
  return sum;
}

/// The optimum, by dynamic programming over whole-numbered sizes.
double optimum(const Items& items, int budget) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<double> best(budget + 1, 0.0);
  for (const PrecisionItem& item : items) {
    std::vector<double> next(budget + 1, never);
    for (int bits = 1; bits <= 8; ++bits) {
      const int need = static_cast<int>(item.size) * bits;
      const double levels = (1 << bits) - 1;
      for (int room = need; room <= budget; ++room) {
        next[room] = std::min(next[room], best[room - need] + item.weight / (levels * levels));
      }
    }
    best.swap(next);
  }
  return best.back();
}

TEST(MixedPrecision, WorkedExampleOfThePaper) {
  const Items items = {{9, 1}, {3, 1}, {1, 1}, {0.1, 1}};
  const Bits bits = allocate_bits(items, 8);
  EXPECT_EQ(bits, (Bits{3, 2, 2, 1}));
  EXPECT_NEAR(precision_cost(items, bits), 0.72812, 5e-6);
  EXPECT_NEAR(precision_cost(items, Bits{2, 2, 2, 2}), 1.45556, 5e-6);
}

TEST(MixedPrecision, PriorityIsByElement) {
  const Items items = {{1, 1}, {16, 4}};
  const Bits bits = allocate_bits(items, 10);
  EXPECT_EQ(bits, (Bits{2, 2}));
  EXPECT_NEAR(precision_cost(items, bits), 1.8889, 5e-5);
}

TEST(MixedPrecision, EqualSizesAreOptimal) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> weight(0, 2);
  for (int round = 0; round < 200; ++round) {
    Items items(8);
    for (auto& item : items) item = {weight(random), 1};
    const int budget = 8 + round % 57;
    const Bits bits = allocate_bits(items, budget);
    ASSERT_LE(used(items, bits), budget);
    ASSERT_NEAR(precision_cost(items, bits), optimum(items, budget), 1e-12) << "round " << round;
  }
}

TEST(MixedPrecision, UnequalSizesComeClose) {
  std::mt19937 random(2);
  std::lognormal_distribution<double> weight(0, 1.5);
  std::uniform_int_distribution<int> log_size(0, 4);
  double sum = 0;
  double worst = 0;
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    Items items(50);
    double elements = 0;
    for (auto& item : items) {
      item = {weight(random), std::ldexp(1.0, log_size(random))};
      elements += item.size;
    }
    const int budget = static_cast<int>(2 * elements);
    const Bits bits = allocate_bits(items, budget);
    ASSERT_LE(used(items, bits), budget);
    const double gap = precision_cost(items, bits) / optimum(items, budget) - 1;
    sum += gap;
    worst = std::max(worst, gap);
  }
  EXPECT_LE(sum / rounds, 0.01);
  EXPECT_LE(worst, 0.06);
}

/// The paper's own words, "minimal increment": the cheapest bit first, whatever it frees.
Bits by_increment_alone(const Items& items, double budget) {
  Bits bits(items.size(), 8);
  while (used(items, bits) > budget) {
    std::size_t cheapest = items.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (bits[i] == 1) continue;
      const double now = (1 << bits[i]) - 1;
      const double then = (1 << (bits[i] - 1)) - 1;
      const double increment = items[i].weight * (1 / (then * then) - 1 / (now * now));
      if (increment >= least) continue;
      least = increment;
      cheapest = i;
    }
    --bits[cheapest];
  }
  return bits;
}

TEST(MixedPrecision, IncrementsByThemselvesAreClearlyWorse) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> weight(0, 1.5);
  std::uniform_int_distribution<int> log_size(0, 4);
  double ours = 0;
  double papers = 0;
  for (int round = 0; round < 50; ++round) {
    Items items(50);
    double elements = 0;
    for (auto& item : items) {
      item = {weight(random), std::ldexp(1.0, log_size(random))};
      elements += item.size;
    }
    const double best = optimum(items, static_cast<int>(2 * elements));
    ours += precision_cost(items, allocate_bits(items, 2 * elements)) / best - 1;
    papers += precision_cost(items, by_increment_alone(items, 2 * elements)) / best - 1;
  }
  EXPECT_GT(papers / 50, 0.2);
  EXPECT_GT(papers, 10 * ours);
}

TEST(MixedPrecision, EqualItemsGetBitsAsEqualAsPossible) {
  const Items items(10, PrecisionItem{1, 1});
  const Bits bits = allocate_bits(items, 25);
  for (const std::uint8_t b : bits) EXPECT_TRUE(b == 2 || b == 3);
  EXPECT_EQ(used(items, bits), 25);
}

TEST(MixedPrecision, ItemsWithoutWeightStillKeepTheBudget) {
  const Items items(16, PrecisionItem{0, 4});
  const Bits bits = allocate_bits(items, 2 * 64);
  for (const std::uint8_t b : bits) EXPECT_EQ(b, 2);
}

TEST(MixedPrecision, TooSmallABudgetGivesOneBit) {
  const Items items(3, PrecisionItem{1, 1});
  EXPECT_EQ(allocate_bits(items, 0), (Bits{1, 1, 1}));
  EXPECT_TRUE(allocate_bits({}, 5).empty());
}

}  // namespace
}  // namespace cinch::policy
