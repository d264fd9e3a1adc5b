// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

TEST(Acgc, IsUncompressedUntilItKnowsThenBounded) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::convolution);
  EXPECT_EQ(director->choice(layer).action, Action::keep);
  Look seen = look(LayerKind::convolution, 4, 10);
  seen.kernel = 9;
  director->observe(layer, seen);
  director->begin_step(1, nullptr);
  const Choice& choice = director->choice(layer);
  ASSERT_EQ(choice.action, Action::encode);
  EXPECT_EQ(choice.spec.name, "fixed_point");
  const double expected = std::sqrt(0.5 * 10 / (2.0 * 9 * (1 << 18) * 4));
  EXPECT_NEAR(double{choice.spec.error_bound} / expected, 1, 1e-6);
}

TEST(Acgc, LooksOnceInAnInterval) {
  const auto director = make_director(with("acgc"));
  int looks = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    director->begin_step(step, nullptr);
    looks += director->wants().anything() ? 1 : 0;
  }
  EXPECT_EQ(looks, 10);
}

TEST(Acgc, AveragesTheLastTenLooks) {
  Settings settings = with("acgc");
  settings.acgc.every_steps = 1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::linear);
  double sum = 0;
  for (int i = 0; i < 15; ++i) {
    director->observe(layer, look(LayerKind::linear, 1, 1 + i));
    director->begin_step(static_cast<std::uint64_t>(i) + 1, nullptr);
    if (i >= 5) sum += 0.5 * (1 + i) / (2.0 * (1 << 18));
  }
  EXPECT_NEAR(double{director->choice(layer).spec.error_bound} / std::sqrt(sum / 10), 1, 1e-6);
}

TEST(Acgc, BatchNormIsBoundedByChannel) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::batch_norm);
  Look seen = look(LayerKind::batch_norm, 1);
  for (int c = 0; c < 4; ++c) {
    // Ever more of the gradient is along x, where an error of x's scale weighs most.
    seen.channels.push_back({1, 1, std::ldexp(256.0, c), std::ldexp(2.0, 2 * c), 0});
  }
  director->observe(layer, seen);
  director->begin_step(1, nullptr);
  const auto& bounds = director->choice(layer).channel_bounds;
  ASSERT_TRUE(bounds);
  ASSERT_EQ(bounds->size(), 4U);
  EXPECT_GT(bounds->front(), bounds->back())
      << "where gradients are large, errors have to be small";
}

TEST(Acgc, WhatHasNoBoundStaysAsItIs) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::attention);
  director->observe(layer, look(LayerKind::linear, 1));
  director->begin_step(1, nullptr);
  EXPECT_EQ(director->choice(layer).action, Action::keep);
}

}  // namespace
}  // namespace cinch::policy
