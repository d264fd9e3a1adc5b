// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/bounded_options.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr std::size_t raw_bytes = 1 << 20;
constexpr Noise all = {1, 1};
constexpr std::uint32_t groups = 0;  // of 2 bits
constexpr std::uint32_t as_3_bits = 1;
constexpr std::uint32_t as_4_bits = 2;

Layer layer() {
  Layer layer;
  layer.kind = LayerKind::linear;
  layer.raw_bytes = raw_bytes;
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec.name = "group_quant";
  choice.spec.bits = 2;
  layer.menu.push_back(choice);
  for (Choice& bounded : bounded_menu(layer.kind)) layer.menu.push_back(std::move(bounded));
  layer.menu.emplace_back();
  return layer;
}

/// A trial of groups whose values are off by so much, and no more.
Look seen(double values) {
  Look look;
  look.trials.resize(1);
  look.trials[groups] = {.own = 0.1, .passed = 0, .passed_worst = 0, .values = values};
  return look;
}

/// The same, and trials of both bounds.
Look tried(double values, Look::Trial at_3_bits, Look::Trial at_4_bits) {
  Look look = seen(values);
  look.trials.push_back(at_3_bits);
  look.trials.push_back(at_4_bits);
  return look;
}

Look::Trial trial(double error, std::size_t bytes) {
  return {.own = error, .passed = 0, .passed_worst = 0, .values = 0, .bytes = bytes};
}

TEST(BoundedOptions, AreForKindsThatMayHaveSuchErrors) {
  EXPECT_EQ(bounded_menu(LayerKind::convolution).size(), 2U);
  EXPECT_EQ(bounded_menu(LayerKind::elementwise).size(), 2U);
  ASSERT_EQ(bounded_menu(LayerKind::attention).size(), 1U);
  EXPECT_EQ(bounded_menu(LayerKind::attention).front().spec.bits, 4);
  EXPECT_TRUE(bounded_menu(LayerKind::matmul).empty());
}

TEST(BoundedOptions, BoundsMatchTheErrorsOfGroups) {
  Layer held = layer();
  BoundedOptions options(held);
  EXPECT_FALSE(options.wants_trial()) << "no bound is known";
  EXPECT_FALSE(options.is_worth_trial(as_3_bits, {}));
  options.follow(seen(0.49), held);
  // 2 bits have 3 steps, 3 bits 7: a mean square of 0.09, which is a third of the bound's.
  EXPECT_NEAR(held.menu[as_3_bits].spec.error_bound, std::sqrt(3 * 0.09), 1e-6);
  EXPECT_NEAR(held.menu[as_4_bits].spec.error_bound, std::sqrt(3 * 0.49 * 9 / 225), 1e-6);
  options.follow({}, held);
  EXPECT_TRUE(options.wants_trial()) << "a look without trials is none";
  EXPECT_TRUE(options.is_worth_trial(as_4_bits, {}));
  EXPECT_FALSE(options.is_worth_trial(groups, {}));
  EXPECT_FALSE(options.is_option(as_3_bits, {})) << "what it takes is not known";
}

TEST(BoundedOptions, TrialsTellWhatTheyTakeAndDo) {
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(0.49), held);
  options.follow(tried(0.49, trial(0.02, 60000), trial(5, 90000)), held);
  EXPECT_FALSE(options.wants_trial());
  ASSERT_TRUE(options.is_option(as_3_bits, {}));
  EXPECT_EQ(options.bytes(as_3_bits), 60000);
  EXPECT_NEAR(options.noise(as_3_bits, all), 0.02, 1e-12);
  EXPECT_FALSE(options.is_option(as_4_bits, {})) << "the guard would object";
  EXPECT_FALSE(options.is_worth_trial(as_4_bits, {}));
  EXPECT_TRUE(options.is_option(as_4_bits, {.every_steps = 0})) << "nobody objects";
  options.follow(tried(0.49, trial(0.12, 60000), {}), held);
  EXPECT_NEAR(options.noise(as_3_bits, all), 0.02 + news * 0.1, 1e-12) << "later ones are averaged";
}

TEST(BoundedOptions, AreTriedAgainInTurn) {
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(0.49), held);
  for (int i = 0; i < 4; ++i) {
    options.follow(tried(0.49, trial(0.02, 60000), trial(0.01, 90000)), held);
    EXPECT_NE(options.is_worth_trial(as_3_bits, {}), options.is_worth_trial(as_4_bits, {})) << i;
    EXPECT_EQ(options.is_worth_trial(as_3_bits, {}), i % 2 == 1) << i;
  }
}

TEST(BoundedOptions, WhatTakesMoreThanRawBytesIsNone) {
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(0.49), held);
  options.follow(tried(0.49, trial(0.02, raw_bytes + 1), trial(0.02, 0)), held);
  EXPECT_FALSE(options.is_option(as_3_bits, {}));
  EXPECT_FALSE(options.is_option(as_4_bits, {})) << "not known how many it takes";
}

TEST(BoundedOptions, BoundsStayUntilValuesHaveClearlyMoved) {
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(1), held);
  const float before = held.menu[as_3_bits].spec.error_bound;
  for (const double values : {1.9, 0.55, 1.0, 1.5}) {
    options.follow(seen(values), held);
    EXPECT_EQ(held.menu[as_3_bits].spec.error_bound, before) << values;
  }
  options.follow(seen(4), held);
  EXPECT_FLOAT_EQ(held.menu[as_3_bits].spec.error_bound, 2 * before);
}

TEST(BoundedOptions, SizesAreTheMostOfLate) {
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(1), held);
  options.follow(tried(1, trial(0.1, 1000), trial(0.1, 2000)), held);
  EXPECT_FALSE(options.note_size(as_3_bits, 1040)) << "not clearly more";
  EXPECT_EQ(options.bytes(as_3_bits), 1040);
  EXPECT_TRUE(options.note_size(as_3_bits, 1200));
  EXPECT_FALSE(options.note_size(as_3_bits, 1000));
  EXPECT_NEAR(options.bytes(as_3_bits), 1199.6, 1e-9) << "slowly downwards";
  EXPECT_EQ(options.bytes(as_4_bits), 2000);
  EXPECT_FALSE(options.note_size(groups, 7));
  EXPECT_EQ(options.bytes(groups), 0);
  EXPECT_EQ(options.bytes(77), 0);
}

TEST(BoundedOptions, WhatIsNoNumberSetsNoBound) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  for (const double values : {0.0, -1.0, infinite, nothing, 1e300, 1e-300}) {
    Layer held = layer();
    BoundedOptions options(held);
    options.follow(seen(values), held);
    EXPECT_FALSE(options.wants_trial()) << values;
    EXPECT_EQ(held.menu[as_3_bits].spec.error_bound, 1) << values;
    options.follow(tried(values, trial(0.1, 1000), trial(0.1, 1000)), held);
    EXPECT_FALSE(options.is_option(as_3_bits, {})) << values;
  }
  Layer held = layer();
  BoundedOptions options(held);
  options.follow(seen(1), held);
  options.follow(tried(1, trial(infinite, 1000), trial(nothing, 1000)), held);
  EXPECT_FALSE(options.is_option(as_3_bits, {.every_steps = 0}));
  EXPECT_FALSE(options.is_option(as_4_bits, {.every_steps = 0}));
}

TEST(BoundedOptions, ComeBackFromTheirNumbers) {
  Layer held = layer();
  BoundedOptions options(held);
  Numbers none;
  options.add_numbers(none);
  EXPECT_TRUE(none.empty());
  options.follow(seen(1), held);
  options.follow(tried(1, trial(0.1, 1000), {}), held);
  Numbers numbers;
  options.add_numbers(numbers);

  Layer later = layer();
  BoundedOptions again(later);
  again.recall(numbers, later);
  EXPECT_EQ(later.menu, held.menu);
  EXPECT_EQ(again.bytes(as_3_bits), 1000);
  EXPECT_EQ(again.noise(as_3_bits, all), options.noise(as_3_bits, all));
  EXPECT_FALSE(again.is_option(as_4_bits, {}));
  EXPECT_FALSE(again.wants_trial());
  Numbers same;
  again.add_numbers(same);
  EXPECT_EQ(same, numbers);
}

TEST(BoundedOptions, NumbersThatCannotBeAreLeftOut) {
  const Numbers unusable[] = {
      {{"bounded_3_bound", -1}, {"bounded_4_bound", 1}},
      {{"bounded_3_bound", 1e200}, {"bounded_4_bound", 1}},
      {{"bounded_3_bound", std::numeric_limits<double>::quiet_NaN()}, {"bounded_4_bound", 1}},
      {{"bounded_3_bound", 1}},
  };
  for (const Numbers& numbers : unusable) {
    Layer held = layer();
    BoundedOptions options(held);
    options.recall(numbers, held);
    EXPECT_EQ(held.menu, layer().menu);
    EXPECT_FALSE(options.wants_trial());
  }
  Layer held = layer();
  BoundedOptions options(held);
  options.recall({{"bounded_3_bound", 1},
                  {"bounded_4_bound", 1},
                  {"bounded_3_bytes", 1e18},
                  {"bounded_3_own", 0.1},
                  {"bounded_3_worst", 0.1}},
                 held);
  EXPECT_LE(options.bytes(as_3_bits), double{raw_bytes});
  EXPECT_FALSE(options.is_option(as_3_bits, {})) << "half of a noise is none";
}

}  // namespace
}  // namespace cinch::policy
