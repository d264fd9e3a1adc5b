// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

/// Bits of a smooth function's input in a branch of a residual net, from whose gradient so much
/// arrives at the sum with the skip connection's.
double bits_in_branch(double share_of_sum) {
  Settings settings = with("auto");
  settings.budget.noise = 0.1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  Footprint footprint;
  for (const auto kind : {LayerKind::linear, LayerKind::linear, LayerKind::convolution,
                          LayerKind::elementwise, LayerKind::linear}) {
    footprint.layers.push_back(add(*director, kind));
  }
  footprint.raw_bytes = 5 << 20;
  footprint.planned_bytes = footprint.stored_bytes = 1 << 20;
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const auto layer : footprint.layers) {
      Look sum;
      sum.share_of_sum = layer == 2 ? share_of_sum : 1;
      director->observe(layer, sum);
      try_layer(*director, layer, 0.5);
    }
  }
  return director->choice(footprint.layers[3]).spec.bits;
}

TEST(Auto, ErrorsInABranchCountByItsShareOfTheGradient) {
  EXPECT_GT(bits_in_branch(1), bits_in_branch(0.05));
}

TEST(Auto, StartsSafeAndGoesToTheNoiseThatIsAllowed) {
  Settings settings = with("auto");
  settings.budget.noise = 0.1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  std::vector<std::uint32_t> layers;
  for (int i = 0; i < 8; ++i) layers.push_back(add(*director, LayerKind::linear));
  for (const auto layer : layers) EXPECT_EQ(director->choice(layer).spec.bits, 4);
  Footprint footprint;
  footprint.layers = layers;
  footprint.raw_bytes = 8 << 20;
  footprint.planned_bytes = footprint.stored_bytes = 2 << 20;
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const auto layer : layers) {
      Look seen;
      seen.kind = LayerKind::linear;
      seen.gradient_noise = 1;
      seen.trials.resize(director->layer(layer).menu.size());
      for (const auto i : director->trials(layer)) {
        const double error = layer < 4 ? 0.05 : 2.0;
        seen.trials[i] = {error, error};
        if (director->layer(layer).menu[i].spec.bits == 1) seen.trials[i] = {3, 3};
      }
      director->observe(layer, seen);
    }
  }
  double noise = 0;
  for (const auto layer : layers) {
    const double levels = std::ldexp(1.0, director->choice(layer).spec.bits) - 1;
    noise += (layer < 4 ? 0.05 : 2.0) * 9 / (levels * levels) / 8;
    EXPECT_LT(director->choice(layer).spec.bits, layer < 4 ? 4 : 9);
  }
  EXPECT_LE(noise, 0.1);
}

}  // namespace
}  // namespace cinch::policy
