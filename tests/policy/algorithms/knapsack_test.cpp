// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/knapsack.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

using Entries = std::vector<std::vector<KnapsackOption>>;

/// Least cost over all selections, by trying each; infinity when none fits.
double best_cost(const Entries& entries, double capacity, std::size_t from = 0) {
  if (capacity < 0) return std::numeric_limits<double>::infinity();
  if (from == entries.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const KnapsackOption& option : entries[from]) {
    best = std::min(best, option.cost + best_cost(entries, capacity - option.size, from + 1));
  }
  return best;
}

/// Entries as training has them: a size, a sensitivity, and options of b bits with variance
/// ~ 1 / (2^b - 1)^2, kept as they are at 32.
Entries training_like(std::mt19937& random, std::size_t count) {
  std::lognormal_distribution<double> sensitivity(0, 2);
  std::uniform_int_distribution<int> log_size(0, 5);
  Entries entries(count);
  for (auto& options : entries) {
    const double size = std::ldexp(1.0, log_size(random)) * 1.37e6;
    const double w = sensitivity(random);
    for (const int bits : {2, 3, 4, 6, 8}) {
      const double levels = std::ldexp(1.0, bits) - 1;
      options.push_back({size * (bits + 0.125) / 32, w / (levels * levels)});
    }
    options.push_back({size, 0});
  }
  return entries;
}

/// By how much a selection's cost is above the optimum's, relatively. Expects it to fit.
double gap(const Entries& entries, double capacity, const Selection& found) {
  EXPECT_TRUE(found.fits);
  EXPECT_LE(found.size, capacity);
  const double optimum = best_cost(entries, capacity);
  return optimum > 0 ? found.cost / optimum - 1 : 0;
}

TEST(Knapsack, IsWithinOnePercentOfTheOptimumOnSmallCases) {
  std::mt19937 random(1);
  double worst = 0;
  for (int round = 0; round < 200; ++round) {
    const Entries entries = training_like(random, 2 + round % 6);
    double least = 0;
    double most = 0;
    for (const auto& options : entries) {
      least += options.front().size;
      most += options.back().size;
    }
    const double capacity =
        least + (most - least) * std::uniform_real_distribution<double>(0, 0.5)(random);
    worst = std::max(worst, gap(entries, capacity, choose_options(entries, capacity)));
  }
  RecordProperty("worst_gap_percent", std::to_string(100 * worst));
  EXPECT_LE(worst, 0.01);
}

/// The same where every entry may also leave, raw or in 4 or 8 bits: no size, and a cost that grows
/// with its bytes.
TEST(Knapsack, IsWithinOnePercentOfTheOptimumWhereEntriesMayLeave) {
  std::mt19937 random(5);
  double worst = 0;
  int leaving = 0;
  int staying = 0;
  for (int round = 0; round < 200; ++round) {
    Entries entries = training_like(random, 2 + round % 4);
    const double by_byte =
        std::lognormal_distribution<double>(0, 2)(random) * 1e-9;  // of variance, a byte moved
    double most = 0;
    for (auto& options : entries) {
      const double raw = options.back().size;
      most += raw;
      options.push_back({0, options[2].cost + by_byte * raw / 8});
      options.push_back({0, options[4].cost + by_byte * raw / 4});
      options.push_back({0, by_byte * raw});
    }
    const double capacity = most * std::uniform_real_distribution<double>(0, 0.3)(random);
    const Selection found = choose_options(entries, capacity);
    worst = std::max(worst, gap(entries, capacity, found));
    for (const std::uint32_t chosen : found.chosen) ++(chosen >= 6 ? leaving : staying);
  }
  EXPECT_LE(worst, 0.01);
  EXPECT_GT(leaving, 50);
  EXPECT_GT(staying, 50);
}

TEST(Knapsack, IsExactWhereSizesAreSmallWholeNumbers) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int> number(1, 40);
  for (int round = 0; round < 200; ++round) {
    Entries entries(5);
    for (auto& options : entries) {
      for (int j = 0; j < 4; ++j)
        options.push_back({double(number(random)), double(number(random))});
    }
    const double capacity = 30 + round % 90;
    const Selection found = choose_options(entries, capacity);
    const double optimum = best_cost(entries, capacity);
    ASSERT_EQ(found.fits, std::isfinite(optimum));
    if (!found.fits) continue;
    ASSERT_NEAR(found.cost, optimum, 1e-9) << "round " << round;
  }
}

TEST(Knapsack, SaysWhatIsLeastWhenNothingFits) {
  const Entries entries = {{{10, 1}, {4, 9}}, {{8, 2}, {3, 5}}};
  const Selection found = choose_options(entries, 6);
  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.size, 7);
  EXPECT_EQ(found.chosen, (std::vector<std::uint32_t>{1, 1}));
}

TEST(Knapsack, LargeCasesComeCloseToTheRelaxation) {
  std::mt19937 random(3);
  const Entries entries = training_like(random, 400);
  double all = 0;
  for (const auto& options : entries) all += options.back().size;
  const Selection found = choose_options(entries, all / 10);
  EXPECT_TRUE(found.fits);
  // A capacity that is smaller by the largest entry bounds the relaxation of this one from above.
  const Selection less = choose_options(entries, all / 10 * 0.99);
  EXPECT_LT(found.cost, less.cost);
  EXPECT_GT(found.size, all / 10 * 0.995) << "the capacity is used";
}

TEST(Knapsack, NothingAtAllIsFine) {
  EXPECT_TRUE(choose_options({}, 0).fits);
}

}  // namespace
}  // namespace cinch::policy
