// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/moving_average.h"

#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

/// Gradients of so many elements around `mean`, scattered by `deviation`.
at::Tensor gradient(std::mt19937& random, std::int64_t elements, float mean, float deviation) {
  std::normal_distribution<float> normal(mean, deviation);
  at::Tensor g = at::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i) g.data_ptr<float>()[i] = normal(random);
  return g;
}

TEST(MovingAverage, KeepsWhatGradientsHaveInCommon) {
  std::mt19937 random(1);
  for (const float deviation : {0.5F, 1.0F, 2.0F}) {
    MovingAverage average;
    EXPECT_EQ(average.mean_magnitude(), 0);
    for (int step = 0; step < 30; ++step) average.add(gradient(random, 10000, 1, deviation));
    EXPECT_NEAR(average.mean_magnitude(), 1, 0.1);
  }
}

TEST(MovingAverage, BeginsAnewWithAnotherSize) {
  std::mt19937 random(2);
  MovingAverage average;
  for (int step = 0; step < 10; ++step) average.add(gradient(random, 1000, 1, 0.1F));
  average.add(gradient(random, 500, 3, 0.1F));
  EXPECT_NEAR(average.mean_magnitude(), 3, 0.1);
}

}  // namespace
}  // namespace cinch::hooks
