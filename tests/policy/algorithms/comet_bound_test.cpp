// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/comet_bound.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(CometBound, WorkedExampleOfThePaper) {
  CometLayer layer;
  layer.momentum = 0.008;
  layer.peak_gradient = 1e-3;
  layer.samples = 10;
  layer.nonzero = 0.625;
  EXPECT_NEAR(comet_bound_paper(layer, 0.01, 0.32), 0.1, 1e-7);
}

TEST(CometBound, ExactFormIsTheFormula) {
  // eb = sigma sqrt(3 K) / (sqrt(R) |gY|), sigma a hundredth of the mean momentum.
  const CometLayer layer = {.momentum = 0.02,
                            .output_gradient = 4,
                            .peak_gradient = 0,
                            .samples = 8,
                            .outputs = 12,
                            .nonzero = 0.25};
  EXPECT_NEAR(comet_bound_exact(layer, 0.01) / (2e-4 * 6 / (0.5 * 2)), 1, 1e-6);
}

TEST(CometBound, UnknownIsZero) {
  EXPECT_EQ(comet_bound_exact({}, 0.01), 0);
  CometLayer layer;
  layer.momentum = 1;
  EXPECT_EQ(comet_bound_exact(layer, 0.01), 0) << "no gradient came back: anything would do";
  EXPECT_EQ(comet_bound_paper(layer, 0.01, 0.32), 0);
}

/// The error of a weight's gradient has the deviation that was asked for, and is normal.
TEST(CometBound, GradientErrorHasTheDeviationAskedFor) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr int positions = 400;
  std::vector<double> gy(positions);
  CometLayer layer;
  layer.momentum = 2;
  layer.outputs = 1;
  layer.nonzero = 0.5;
  for (double& g : gy) {
    g = normal(random);
    layer.output_gradient += g * g;
  }
  const double bound = comet_bound_exact(layer, 0.01);
  std::uniform_real_distribution<double> error(-bound, bound);
  std::bernoulli_distribution is_nonzero(0.5);
  double squares = 0;
  int within = 0;
  constexpr int draws = 20000;
  for (int draw = 0; draw < draws; ++draw) {
    double sum = 0;
    for (const double g : gy) sum += is_nonzero(random) ? g * error(random) : 0;
    squares += sum * sum / draws;
    within += std::abs(sum) <= 0.02 ? 1 : 0;
  }
  EXPECT_NEAR(squares / (0.02 * 0.02), 1, 0.05);
  EXPECT_NEAR(100.0 * within / draws, 68.2, 1.5);
}

TEST(RefreshSchedule, HalvesWhileBoundsMoveAndGoesBack) {
  RefreshSchedule schedule(1000);
  EXPECT_EQ(schedule.next(), 1000U);
  schedule.refreshed(1000, 1);
  EXPECT_EQ(schedule.next(), 2000U);
  schedule.refreshed(2000, 2.5);
  EXPECT_EQ(schedule.next(), 2500U);
  schedule.refreshed(2500, 3);
  schedule.refreshed(2750, 3);
  EXPECT_EQ(schedule.interval(), 125U);
  schedule.refreshed(2875, 3);
  EXPECT_EQ(schedule.interval(), 125U) << "the floor";
  schedule.refreshed(3000, 1.9);
  EXPECT_EQ(schedule.interval(), 1000U);
  EXPECT_EQ(schedule.next(), 4000U);
}

}  // namespace
}  // namespace cinch::policy
