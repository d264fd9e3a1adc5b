// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

TEST(Actnn, LevelsOneAndTwoAreFixed) {
  Settings settings = with("actnn");
  settings.actnn.level = 1;
  const auto one = make_director(settings);
  EXPECT_EQ(one->choice(add(*one, LayerKind::convolution)).spec.bits, 4);
  EXPECT_EQ(one->choice(add(*one, LayerKind::linear)).action, Action::keep);
  settings.actnn.level = 2;
  const auto two = make_director(settings);
  EXPECT_EQ(two->choice(add(*two, LayerKind::linear)).spec.bits, 4);
  EXPECT_EQ(two->choice(add(*two, LayerKind::matmul)).spec.bits, 8);
  two->begin_step(0, nullptr);
  EXPECT_FALSE(two->wants().anything());
}

TEST(Actnn, GivesBitsWhereGradientsAreLarge) {
  const auto director = make_director(with("actnn"));
  director->begin_step(0, nullptr);
  const auto important = add(*director, LayerKind::convolution);
  const auto unimportant = add(*director, LayerKind::convolution);
  const auto norm = add(*director, LayerKind::batch_norm);
  const auto attention = add(*director, LayerKind::attention);
  EXPECT_EQ(director->choice(important).spec.bits, 8) << "nothing is known yet";
  ASSERT_TRUE(director->wants().gradients);
  for (const auto& [layer, gradient] : {std::pair{important, 1000.0}, {unimportant, 1.0}}) {
    Look seen = look(LayerKind::convolution, gradient);
    seen.plane_ranges.assign(8, 1.0F);
    director->observe(layer, seen);
  }
  Look seen = look(LayerKind::batch_norm, 1);
  seen.producer = important;
  director->observe(norm, seen);
  director->begin_step(1, nullptr);
  EXPECT_FALSE(director->wants().anything());
  const double first = director->choice(important).mixed_bits;
  const double second = director->choice(unimportant).mixed_bits;
  EXPECT_GT(first, second);
  EXPECT_NEAR(first + second, 4, 1e-9) << "an average of 2";
  EXPECT_EQ(director->choice(norm).mixed_bits, first) << "the convolution's before it";
  EXPECT_EQ(director->choice(attention).spec.bits, 8) << "never 2";
  EXPECT_EQ(director->choice(attention).mixed_bits, 0);
}

}  // namespace
}  // namespace cinch::policy
