// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

TEST(Comet, WarmsUpRefreshesAndHalves) {
  Settings settings = with("comet");
  settings.comet.every_steps = 100;
  settings.comet.momentum_steps = 10;
  const auto director = make_director(settings);
  std::uint32_t layer = no_layer;
  std::vector<std::uint64_t> looks;
  int followed = 0;
  double gradient = 1;
  for (std::uint64_t step = 0; step < 400; ++step) {
    director->begin_step(step, nullptr);
    if (step == 0) layer = add(*director, LayerKind::convolution);
    if (step < 100) {
      ASSERT_EQ(director->choice(layer).action, Action::keep) << step;
    }
    followed += director->wants().momentum ? 1 : 0;
    if (!director->wants().gradients) continue;
    looks.push_back(step);
    Look seen = look(LayerKind::convolution, gradient);
    seen.momentum = 1;
    director->observe(layer, seen);
    gradient *= looks.size() == 1 ? 16 : 1;  // the second bound is a quarter of the first
  }
  EXPECT_EQ(looks, (std::vector<std::uint64_t>{99, 199, 249, 349}));
  EXPECT_EQ(followed, 40);
  EXPECT_EQ(director->choice(layer).spec.name, "error_bounded_ratio");
  EXPECT_NEAR(director->choice(layer).spec.error_bound, 0.01 * std::sqrt(3.0) / 4, 1e-6);
}

}  // namespace
}  // namespace cinch::policy
