// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/acgc_bounds.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(AcgcBounds, WorkedExampleOfThePaper) {
  const AcgcTerm linear = {22.25, 1.25, 1, 1};
  const double squared = acgc_product_bound({&linear, 1}, 4, 0.5);
  EXPECT_NEAR(squared, 1.1125, 1e-9);
  EXPECT_NEAR(std::sqrt(squared), 1.0548, 5e-5);
  // D(dx) = |gY|^2 |dX|^2 is half of the e^2 V^2 that it may be.
  EXPECT_NEAR(1.25 * 4 * squared, 0.5 * 0.5 * 22.25, 1e-9);
}

TEST(AcgcBounds, ErrorOfALinearLayerNeverExceedsIt) {
  // All sign patterns of +-bound on the worked example: X is 2 x 2, gY is [1, .5].
  const double dx = std::sqrt(1.1125);
  double worst = 0;
  double sum = 0;
  for (int pattern = 0; pattern < 16; ++pattern) {
    double squared = 0;
    for (int c = 0; c < 2; ++c) {
      const auto error = [&](int n) { return (pattern >> (2 * n + c)) & 1 ? dx : -dx; };
      const double gradient = 1.0 * error(0) + 0.5 * error(1);
      squared += gradient * gradient;
    }
    worst = std::max(worst, squared);
    sum += squared;
  }
  EXPECT_LE(worst, 0.5 * 22.25);
  EXPECT_NEAR(worst, 5.0063, 1e-4);
  EXPECT_NEAR(sum / 16, 0.5 * 22.25 / (2 * 2), 1e-9) << "random signs spend 1/(2N) of the budget";
}

TEST(AcgcBounds, Convolution) {
  // e2 V^2 T^2 / (2 RS M C |gY|^2): 3 x 3, stride 2, M C = 1000.
  const AcgcTerm one = {10, 4, 9, 4};
  EXPECT_NEAR(acgc_product_bound({&one, 1}, 1000, 0.5), 0.5 * 10 * 4 / (2.0 * 9 * 1000 * 4), 1e-12);
  EXPECT_NEAR(9.0 / 4 * 4 * 1000 * acgc_product_bound({&one, 1}, 1000, 0.5), 0.5 * 0.5 * 10, 1e-9)
      << "D(dx) is half of e^2 V^2";
  const std::vector<AcgcTerm> two = {one, {6, 8, 1, 1}};
  EXPECT_NEAR(acgc_product_bound(two, 1000, 0.5), 0.5 * 16 / (2.0 * 1000 * (9.0 / 4 * 4 + 8)),
              1e-12);
  EXPECT_EQ(acgc_product_bound({}, 1000, 0.5), 0);
}

/// A convolution in one dimension, without padding: gW of every sign pattern of +-bound, and of
/// random ones.
TEST(AcgcBounds, ErrorOfAConvolutionNeverExceedsIt) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr int inputs = 12;
  constexpr int kernel = 3;
  constexpr int outputs = inputs - kernel + 1;
  std::vector<double> x(inputs);
  std::vector<double> gy(outputs);
  for (double& v : x) v = normal(random);
  for (double& v : gy) v = normal(random);
  const auto weight_gradient = [&gy](const auto& of) {
    std::vector<double> gw(kernel);
    for (int r = 0; r < kernel; ++r) {
      for (int o = 0; o < outputs; ++o) gw[r] += gy[o] * of(o + r);
    }
    return gw;
  };
  AcgcTerm term = {0, 0, kernel, 1};
  for (const double v : weight_gradient([&x](int i) { return x[i]; }))
    term.weight_gradient += v * v;
  for (const double v : gy) term.output_gradient += v * v;
  const double squared = acgc_product_bound({&term, 1}, inputs, 0.5);
  const double allowed = 0.5 * term.weight_gradient;
  double sum = 0;
  for (int pattern = 0; pattern < 1 << inputs; ++pattern) {
    double error = 0;
    for (const double v : weight_gradient([&](int i) {
           return (pattern >> i) & 1 ? std::sqrt(squared) : -std::sqrt(squared);
         })) {
      error += v * v;
    }
    ASSERT_LE(error, allowed);
    sum += error;
  }
  // Random signs spend T^2 / (2 M) of it.
  EXPECT_NEAR(sum / (1 << inputs) / allowed * 2 * inputs, 1, 0.1);
}

TEST(AcgcBounds, LossScaleCancels) {
  for (const double scale : {1.0, 65536.0}) {
    const AcgcTerm term = {10 * scale * scale, 4 * scale * scale, 9, 1};
    EXPECT_NEAR(acgc_product_bound({&term, 1}, 1000, 0.5), 0.5 * 10 / (2.0 * 9 * 1000 * 4), 1e-12);
  }
}

/// One channel of M elements: gX of batch norm.
std::vector<double> batch_norm_gradient(const std::vector<double>& x, const std::vector<double>& g,
                                        double mean, double sigma, double gamma) {
  const auto m = static_cast<double>(x.size());
  double sum = 0;
  double dot = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += g[i];
    dot += g[i] * (x[i] - mean) / sigma;
  }
  std::vector<double> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.push_back(gamma / sigma * (g[i] - sum / m - (x[i] - mean) / sigma * dot / m));
  }
  return out;
}

TEST(AcgcBounds, BatchNormHoldsInExpectation) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr int count = 64;
  // From a gradient that has nothing of x (g_gamma = 0) to one that is mostly x.
  for (const double along : {0.0, 0.3, 3.0, 30.0}) {
    std::vector<double> x(count);
    std::vector<double> g(count);
    for (int i = 0; i < count; ++i) x[i] = 2 * normal(random) + 1;
    double mean = 0;
    double variance = 0;
    for (const double v : x) mean += v / count;
    for (const double v : x) variance += (v - mean) * (v - mean) / count;
    const double sigma = std::sqrt(variance);
    AcgcChannel channel = {1.5, sigma, 0, 0};
    double sum = 0;
    for (int i = 0; i < count; ++i) g[i] = normal(random) + along * (x[i] - mean) / sigma;
    if (along == 0.0) {
      double dot = 0;
      for (int i = 0; i < count; ++i) dot += g[i] * (x[i] - mean) / sigma / count;
      for (int i = 0; i < count; ++i) g[i] -= dot * (x[i] - mean) / sigma;
    }
    for (int i = 0; i < count; ++i) {
      sum += g[i];
      channel.gamma_gradient += g[i] * (x[i] - mean) / sigma;
      channel.output_gradient += g[i] * g[i];
    }
    const std::vector<double> exact = batch_norm_gradient(x, g, mean, sigma, channel.gamma);
    double v2 = 0;
    for (const double v : exact) v2 += v * v;
    EXPECT_NEAR(batch_norm_input_gradient(channel, sum, count), v2, 1e-9 * v2);
    const double dx = std::sqrt(acgc_batch_norm_bound(channel, v2, count, 1, 0.5));
    double mean_error = 0;
    constexpr int draws = 2000;
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<double> changed = x;
      for (double& v : changed) v += (random() & 1U) != 0 ? dx : -dx;
      const std::vector<double> found = batch_norm_gradient(changed, g, mean, sigma, channel.gamma);
      for (int i = 0; i < count; ++i)
        mean_error += (found[i] - exact[i]) * (found[i] - exact[i]) / draws;
    }
    EXPECT_LE(mean_error, 1.02 * 0.5 * v2) << "along " << along;
  }
}

TEST(AcgcBounds, NormsNeverGoBeyondAStandardDeviation) {
  EXPECT_EQ(acgc_batch_norm_bound({1, 3, 0, 0}, 1, 100, 4, 0.5), 9);
  EXPECT_EQ(acgc_batch_norm_bound({1, 3, 1e-9, 1e-18}, 1, 100, 4, 0.5), 9);
  EXPECT_EQ(acgc_layer_norm_bound({8, 64, 1, 0, 0.25}, 0.5), 0.25);
  EXPECT_NEAR(acgc_layer_norm_bound({8, 64, 2, 1000, 0.25}, 0.5), 0.5 * 2 * 64 / 1000.0, 1e-12);
}

}  // namespace
}  // namespace cinch::policy
