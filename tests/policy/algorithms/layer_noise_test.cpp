// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/layer_noise.h"

#include <limits>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

Choice held(const char* codec, int bits) {
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec.name = codec;
  choice.spec.bits = bits;
  return choice;
}

Choice dithered(int bits) {
  Choice choice = held("group_quant", bits);
  choice.spec.subtractive_dither = true;
  return choice;
}

/// A linear layer that may have 1, 2 and 4 bits, DIVISION at 2, or be kept.
Layer layer() {
  Layer layer;
  layer.kind = LayerKind::linear;
  layer.menu = {held("group_quant", 1),
                held("group_quant", 2),
                held("group_quant", 4),
                held("division", 2),
                {}};
  return layer;
}

Look tried(std::uint32_t index, Look::Trial trial) {
  Look look;
  look.trials.resize(layer().menu.size());
  look.trials[index] = trial;
  return look;
}

constexpr Noise all = {1, 1};

TEST(LayerNoise, FallsWithTheSquareOfTheLevels) {
  const LayerNoise noise(LayerKind::linear);
  const double at_two = noise.of(held("group_quant", 2), all);
  EXPECT_GT(at_two, 0) << "assumed, before anything was tried";
  EXPECT_NEAR(noise.of(held("group_quant", 4), all), at_two * 9 / 225, 1e-12);
  EXPECT_LT(noise.of(held("division", 2), all), at_two);
  EXPECT_EQ(noise.of({}, all), 0) << "kept";
  EXPECT_EQ(noise.tries(), 0U);
  EXPECT_TRUE(noise.numbers().empty());
}

TEST(LayerNoise, ATrialReplacesWhatWasAssumedAndLaterOnesAreAveraged) {
  LayerNoise noise(LayerKind::linear);
  // Of 4 bits: at 2 it is 25 times as much. Of what is passed on, the worst counts a fifth.
  EXPECT_TRUE(noise.follow(tried(2, {.own = 0.01, .passed = 0.02, .passed_worst = 0.07}), layer()));
  EXPECT_NEAR(noise.of(held("group_quant", 2), {1, 0}), 0.25, 1e-12);
  EXPECT_NEAR(noise.of(held("group_quant", 2), {0, 1}), 25 * (0.8 * 0.02 + 0.2 * 0.07), 1e-12);
  EXPECT_TRUE(noise.follow(tried(1, {.own = 1.25, .passed = 0, .passed_worst = 0}), layer()));
  EXPECT_NEAR(noise.of(held("group_quant", 2), {1, 0}), 0.25 + 0.3 * (1.25 - 0.25), 1e-12);
  EXPECT_EQ(noise.tries(), 2U);
}

TEST(LayerNoise, DitheringHalvesIt) {
  LayerNoise noise(LayerKind::linear);
  for (const int bits : {2, 3, 8}) {
    EXPECT_NEAR(noise.of(dithered(bits), all), noise.of(held("group_quant", bits), all) / 2, 1e-12)
        << "assumed, before anything was tried";
  }
  // A trial measured the halved noise.
  Layer all_dithered = layer();
  all_dithered.menu[2] = dithered(4);
  EXPECT_TRUE(noise.follow(tried(2, {.own = 0.01, .passed = 0, .passed_worst = 0}), all_dithered));
  EXPECT_NEAR(noise.of(dithered(4), {1, 0}), 0.01, 1e-12);
  EXPECT_NEAR(noise.of(dithered(2), {1, 0}), 0.25, 1e-12);
  EXPECT_NEAR(noise.of(held("group_quant", 2), {1, 0}), 0.5, 1e-12);
}

TEST(LayerNoise, WhatIsNoNumberCountsForNothing) {
  LayerNoise noise(LayerKind::linear);
  const double before = noise.of(held("group_quant", 2), all);
  EXPECT_FALSE(noise.follow(tried(1, {}), layer())) << "not tried";
  constexpr double infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(noise.follow(tried(1, {.own = infinite, .passed = 0}), layer()));
  EXPECT_FALSE(noise.follow({}, layer()));
  EXPECT_EQ(noise.of(held("group_quant", 2), all), before);
}

TEST(LayerNoise, OneBitIsMeasuredByItselfAndWatchedByTheGuard) {
  LayerNoise noise(LayerKind::linear);
  GuardSettings guard;
  EXPECT_FALSE(noise.takes_single(guard)) << "nothing is assumed of it";
  EXPECT_FALSE(noise.follow(tried(0, {.own = 1, .passed = 0, .passed_worst = 0}), layer()));
  EXPECT_NEAR(noise.of(held("group_quant", 1), {1, 0}), 1, 1e-12);
  guard.max_gradient_error = 1.2;
  EXPECT_FALSE(noise.takes_single(guard)) << "an error of 1 is less than a fifth below";
  guard.max_gradient_error = 1.3;
  EXPECT_TRUE(noise.takes_single(guard));
  guard.max_gradient_error = 0.1;
  guard.every_steps = 0;
  EXPECT_TRUE(noise.takes_single(guard)) << "nobody objects";
}

TEST(LayerNoise, ComesBackFromItsNumbers) {
  LayerNoise noise(LayerKind::linear);
  noise.follow(tried(0, {.own = 0.5, .passed = 0.1, .passed_worst = 0.2}), layer());
  noise.follow(tried(1, {.own = 0.2, .passed = 0.3, .passed_worst = 0.3}), layer());
  noise.follow(tried(3, {.own = 0.1, .passed = 0.1, .passed_worst = 0.1}), layer());
  LayerNoise again(LayerKind::other);
  again.recall(noise.numbers());
  EXPECT_EQ(again.numbers(), noise.numbers());
  for (const Choice& choice : layer().menu) EXPECT_EQ(again.of(choice, all), noise.of(choice, all));
  EXPECT_TRUE(again.takes_single({}));
  again.recall({{"group_own", -1}, {"single_worst", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(again.of(held("group_quant", 2), all), noise.of(held("group_quant", 2), all))
      << "what can't be is left out";
}

}  // namespace
}  // namespace cinch::policy
