// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/derivation_plan.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr std::uint32_t few = 0, many = 1, computed = 2;

/// Held in few bytes with noise `noise`, or in many with a hundredth of it.
PlannedLayer stored(double noise) {
  return {{{2, noise}, {8, noise / 100}}, -1, {}};
}

/// The same, or computed from `sources` in a byte.
PlannedLayer derivable(double noise, std::vector<std::size_t> sources) {
  PlannedLayer layer = stored(noise);
  layer.options.push_back({1, 0});
  layer.derived = computed;
  layer.sources = std::move(sources);
  return layer;
}

/// What is computed has as much noise as if it was held as its source is.
DerivedCost as_held(const std::vector<PlannedLayer>& layers) {
  return [&layers](std::size_t derived, std::size_t, std::size_t option) {
    return layers[derived].options[option].cost;
  };
}

TEST(DerivationPlan, ASourceGetsTheBytesThatWhatIsComputedFromItDoesNotNeed) {
  const std::vector<PlannedLayer> layers = {stored(1), derivable(1, {0}), derivable(1, {0}),
                                            stored(1.5)};
  const Selection best = plan_with_derivation(layers, 12, as_held(layers));
  ASSERT_TRUE(best.fits);
  EXPECT_EQ(best.chosen, (std::vector<std::uint32_t>{many, computed, computed, few}))
      << "the source's noise counts three times";
  EXPECT_DOUBLE_EQ(best.cost, 0.03 + 1.5);
  EXPECT_DOUBLE_EQ(best.cost, cost_of(layers, best.chosen, as_held(layers)));
}

TEST(DerivationPlan, NoiseOfSourcesReachesThroughOthersThatAreComputed) {
  const std::vector<PlannedLayer> layers = {stored(1), derivable(1, {0}), derivable(1, {1})};
  const std::vector<std::uint32_t> chosen = {few, computed, computed};
  EXPECT_DOUBLE_EQ(cost_of(layers, chosen, as_held(layers)), 3);
  EXPECT_DOUBLE_EQ(
      cost_of(layers, std::vector<std::uint32_t>{few, many, computed}, as_held(layers)),
      1 + 0.01 + 0.01)
      << "computed from the stored one, at its bits";
}

TEST(DerivationPlan, WhatIsTooSensitiveForItsSourceIsStored) {
  // 16 more bytes would make the source exact enough, 7 store the one that needs it.
  std::vector<PlannedLayer> layers = {{{{2, 1}, {18, 0.01}}, -1, {}}, derivable(100, {0})};
  const Selection best = plan_with_derivation(layers, 11, as_held(layers));
  ASSERT_TRUE(best.fits);
  EXPECT_EQ(best.chosen, (std::vector<std::uint32_t>{few, many}));
  EXPECT_DOUBLE_EQ(best.cost, 2);
}

TEST(DerivationPlan, WhatTakesFewerBytesStoredIsStoredIfNothingElseFits) {
  std::vector<PlannedLayer> layers = {stored(1), derivable(1, {0})};
  layers[1].options[few].size = 0;  // moved to the host
  const Selection best = plan_with_derivation(layers, 2, as_held(layers));
  EXPECT_TRUE(best.fits);
  EXPECT_EQ(best.chosen, (std::vector<std::uint32_t>{few, few}));
}

TEST(DerivationPlan, OptionsOfASourceThatWhatIsComputedDoesNotTakeAreNone) {
  const std::vector<PlannedLayer> layers = {stored(1), derivable(1, {0})};
  const auto not_from_few = [](std::size_t, std::size_t, std::size_t option) {
    return option == few ? not_an_option.cost : 0.01;
  };
  const Selection fits = plan_with_derivation(layers, 9, not_from_few);
  EXPECT_TRUE(fits.fits);
  EXPECT_EQ(fits.chosen, (std::vector<std::uint32_t>{many, computed}));
  const Selection least = plan_with_derivation(layers, 5, not_from_few);
  EXPECT_FALSE(least.fits);
  EXPECT_DOUBLE_EQ(least.size, 9);
}

TEST(DerivationPlan, SaysTheLeastWhereNothingFits) {
  const std::vector<PlannedLayer> layers = {stored(1), derivable(1, {0})};
  const Selection least = plan_with_derivation(layers, 1, as_held(layers));
  EXPECT_FALSE(least.fits);
  EXPECT_DOUBLE_EQ(least.size, 3);
}

}  // namespace
}  // namespace cinch::policy
