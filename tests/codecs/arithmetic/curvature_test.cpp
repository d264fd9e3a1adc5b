// SPDX-License-Identifier: Apache-2.0
#include "codecs/arithmetic/curvature.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/affine.h"
#include "codecs/float_formats.h"
#include "codecs/formats/group_quant.h"
#include "tests/codecs/support.h"

namespace cinch::codecs {
namespace {

using test::two_threads;

double gelu(double x) {
  return x * std::erfc(-x / std::sqrt(2.0)) / 2;
}

double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

double value(Smooth function, double x) {
  if (function == Smooth::silu) return silu(x);
  return function == Smooth::gelu ? gelu(x) : gelu_tanh(x);
}

/// By differences; of GELU's approximation GELU's own.
double curvature(Smooth of, double x) {
  const Smooth function = of == Smooth::gelu_tanh ? Smooth::gelu : of;
  constexpr double h = 1e-3;
  return (value(function, x + h) - 2 * value(function, x) + value(function, x - h)) / (h * h);
}

TEST(Curvature, OfEachGroup) {
  constexpr std::int64_t plane = 100;
  constexpr std::int64_t group = 24;  // five to a plane, the last of 4 elements
  constexpr std::int64_t first = 37;
  constexpr std::size_t n = 250;
  std::vector<float> steps(15);
  for (std::size_t k = 0; k < steps.size(); ++k) steps[k] = 0.25F * static_cast<float>(k);
  std::mt19937 engine(1);
  std::normal_distribution<float> values(0, 3);
  std::vector<float> x(n);
  for (float& each : x) each = values(engine);
  for (const Smooth function : {Smooth::gelu, Smooth::gelu_tanh, Smooth::silu}) {
    for (const Engine each : {Engine::reference, Engine::cpu}) {
      std::vector<float> y = x;  // in place
      apply_without_bias(function, {steps.data(), {group, plane}}, first, n, y.data(), y.data(),
                         two_threads, each);
      for (std::size_t k = 0; k < n; ++k) {
        const auto place = first + static_cast<std::int64_t>(k);
        const double step =
            steps[static_cast<std::size_t>(place / plane * 5 + place % plane / group)];
        const double expected =
            value(function, x[k]) - step * step / 24 * curvature(function, x[k]);
        EXPECT_NEAR(y[k], expected, 1e-5) << k;
      }
    }
  }
}

TEST(Curvature, OfInterleavedGroups) {
  constexpr std::int64_t features = 37, group = 16, plane = features * group, n = 3 * plane;
  std::mt19937 engine(9);
  std::normal_distribution<float> normal;
  std::vector<float> x(n), steps(3 * features);
  for (float& each : x) each = normal(engine);
  for (float& each : steps) each = std::abs(normal(engine));
  for (const Engine each : {Engine::reference, Engine::cpu}) {
    for (const std::int64_t first : {0, 5, 600}) {
      std::vector<float> y(x.begin() + first, x.end());
      apply_without_bias(Smooth::silu, {steps.data(), {group, plane, true}}, first, n - first,
                         y.data(), y.data(), two_threads, each);
      for (std::int64_t k = first; k < n; ++k) {
        const double step = steps[static_cast<std::size_t>(k / plane * features + k % features)];
        const auto at = static_cast<std::size_t>(k);
        const double expected =
            value(Smooth::silu, x[at]) - step * step / 24 * curvature(Smooth::silu, x[at]);
        EXPECT_NEAR(y[static_cast<std::size_t>(k - first)], expected, 1e-5) << k;
      }
    }
  }
}

TEST(Curvature, EnginesGiveEqualBits) {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-30, 30);
  std::vector<float> x;
  for (int k = 0; k < 40000; ++k) x.push_back(normal(engine) * 4);
  for (int k = 0; k < 10000; ++k) x.push_back(normal(engine) * std::exp2(exponent(engine)));
  for (const float each : {0.0F, -0.0F, 80.0F, -80.0F, 3e38F, -3e38F, 1e-45F}) x.push_back(each);
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> steps(x.size() / 8 + 1);
  for (float& step : steps) step = std::exp2(exponent(engine) / 3);
  steps[0] = 0;
  for (const Smooth function : {Smooth::gelu, Smooth::gelu_tanh, Smooth::silu}) {
    std::vector<float> y[2] = {x, x};
    for (const Engine each : {Engine::reference, Engine::cpu}) {
      float* const to = y[each == Engine::cpu].data();
      apply_without_bias(function, {steps.data(), 8, n}, 0, n, to, to, serial_for, each);
    }
    for (std::size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(float_bits(y[0][k]), float_bits(y[1][k])) << x[k] << ' ' << int(function);
    }
  }
}

TEST(Curvature, OfHugeValuesIsNone) {
  const std::vector<float> x = {1e4F, -1e4F, 1e20F, -1e30F, 3e38F, -200.0F};
  const float step = 1e6F;
  for (const Smooth function : {Smooth::gelu, Smooth::gelu_tanh, Smooth::silu}) {
    for (const Engine each : {Engine::reference, Engine::cpu}) {
      std::vector<float> y(x.size());
      apply_without_bias(function, {&step, 8, 8}, 0, static_cast<std::int64_t>(x.size()), x.data(),
                         y.data(), serial_for, each);
      for (std::size_t k = 0; k < x.size(); ++k) {
        EXPECT_NEAR(y[k], std::max(x[k], 0.0F), 1e-6 * std::abs(x[k])) << x[k];
      }
    }
  }
}

class BiasOfCurvature : public testing::TestWithParam<PlaneLayout> {};

INSTANTIATE_TEST_SUITE_P(Layouts, BiasOfCurvature,
                         testing::Values(PlaneLayout::rows(4096, 4096),
                                         PlaneLayout{.outer = 2,
                                                     .outer_stride = 2048,
                                                     .extent = {8, 1, 256},
                                                     .stride = {1, 0, 8}}));

// What it is for: groups of 2 bits, decoded from many draws.
TEST_P(BiasOfCurvature, OfDitheredValues) {
  constexpr std::int64_t n = 4096;
  constexpr std::int64_t group = 256;
  constexpr int draws = 400;
  std::mt19937 engine(2);
  std::normal_distribution<float> values;
  std::vector<float> x(n);
  for (float& each : x) each = values(engine);
  const auto codec =
      make_codec({.name = "group_quant", .bits = 2, .group = group, .subtractive_dither = true});
  const Description what = {.layout = GetParam()};
  const auto errors = codec->even_errors(what);
  ASSERT_TRUE(errors);
  EXPECT_EQ(errors->order.group, group);
  EXPECT_EQ(errors->order.plane, what.layout.plane_size());
  ASSERT_EQ(errors->groups, n / group);
  std::vector<std::byte> encoded(codec->encoded_bytes(what));
  for (const Smooth function : {Smooth::gelu, Smooth::gelu_tanh, Smooth::silu}) {
    std::vector<double> mean(n);
    std::vector<double> mean_corrected(n);
    for (std::uint32_t draw = 0; draw < draws; ++draw) {
      codec->encode(what, x.data(), encoded, {1, draw, 0}, serial_for);
      std::vector<float> decoded(n);
      ASSERT_TRUE(codec->decode(what, encoded, decoded.data(), Reads::values, serial_for));
      std::vector<float> steps;
      for (std::int64_t k = 0; k < errors->groups; ++k) {
        AffineRange range;
        std::memcpy(&range, encoded.data() + errors->ranges + k * 4, sizeof range);
        steps.push_back(float_of_bf16(range.step));
      }
      for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += value(function, decoded[k]) / draws;
      std::vector<float> y(n);
      apply_without_bias(function, {steps.data(), errors->order}, 0, n, decoded.data(), y.data(),
                         serial_for);
      for (std::size_t k = 0; k < y.size(); ++k) mean_corrected[k] += y[k] / draws;
    }
    const auto bias = [&](const std::vector<double>& of) {
      double sum = 0;
      for (std::size_t k = 0; k < of.size(); ++k) sum += of[k] - value(function, x[k]);
      return sum / n;
    };
    EXPECT_GT(bias(mean), 0.03);
    EXPECT_LT(std::abs(bias(mean_corrected)), bias(mean) / 10);
  }
}

TEST(Curvature, OtherErrorsAreNotEven) {
  const Description what = {.layout = PlaneLayout::rows(512, 512)};
  EXPECT_FALSE(make_codec({.name = "group_quant"})->even_errors(what));
  EXPECT_FALSE(make_codec({.name = "division"})->even_errors(what));
  Description strided = what;
  strided.layout = {
      .outer = 1, .inner = 2, .inner_stride = 1, .extent = {1, 1, 256}, .stride = {0, 0, 2}};
  const auto codec = make_codec({.name = "group_quant", .subtractive_dither = true});
  EXPECT_FALSE(codec->even_errors(strided));
  Description features = what;
  features.layout = {.extent = {2, 1, 512}, .stride = {1, 0, 2}};
  EXPECT_FALSE(codec->even_errors(features)) << "a feature has two groups";
}

}  // namespace
}  // namespace cinch::codecs
