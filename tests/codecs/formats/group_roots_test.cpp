// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "codecs/formats/group_quant.h"
#include "tests/codecs/formats/restored.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

CodecSpec of_roots(int bits) {
  return {.name = "group_quant", .bits = bits, .subtractive_dither = true, .roots = true};
}

CodecSpec of_values(int bits) {
  CodecSpec spec = of_roots(bits);
  spec.roots = false;
  return spec;
}

const Description what = {.type = ElementType::float32, .layout = contiguous(64, {1, 1, 256})};

/// Rows of a softmax of attention's size: each sums to 1, and few elements have most of it.
std::vector<float> probabilities() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()));
  for (std::size_t row = 0; row < x.size(); row += 64) {
    float sum = 0.0F;
    for (std::size_t i = row; i < row + 64; ++i) sum += x[i] = std::exp(normal(random));
    for (std::size_t i = row; i < row + 64; ++i) x[i] /= sum;
  }
  return x;
}

TEST(GroupRoots, ProbabilitiesErrAsInOneAndAHalfMoreBits) {
  const std::vector<float> x = probabilities();
  for (const int bits : {3, 4, 5}) {
    const double error = squared_error(x, restored(of_roots(bits), what, x));
    EXPECT_LT(error, 0.25 * squared_error(x, restored(of_values(bits), what, x))) << bits;
    EXPECT_LT(error, 0.9 * squared_error(x, restored(of_values(bits + 1), what, x))) << bits;
  }
}

TEST(GroupRoots, TheMeanOverDrawsIsTheElement) {
  EXPECT_LT(squared_bias(of_roots(2), what, probabilities()), 1.2);
}

TEST(GroupRoots, DecodesWhatTheFormatSays) {
  const std::vector<float> x = probabilities();
  std::vector<float> roots = x;
  for (float& each : roots) each = std::sqrt(each);
  const auto plain = make_codec(of_values(3));
  const Bytes bytes = encode(*plain, what, make_source(what, roots));
  EXPECT_EQ(encode(*make_codec(of_roots(3)), what, make_source(what, x)), bytes);
  const auto ranges = reinterpret_cast<const AffineRange*>(bytes.data() + sizeof(RandomKey));
  const std::vector<float> v = values_of(what, decode(*plain, what, bytes));
  const std::vector<float> y = restored(of_roots(3), what, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float step = float_of_bf16(ranges[i / 256].step);
    ASSERT_EQ(y[i], v[i] * v[i] - step * step * (1.0F / 12.0F)) << i;
  }
}

TEST(GroupRoots, NegativeElementsCountAsZero) {
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()), -5.0F);
  for (const float y : restored(of_roots(4), what, x)) EXPECT_EQ(y, 0.0F);
}

TEST(GroupRoots, WhatCannotBeHeldPoisonsItsGroup) {
  for (const float bad :
       {-kInfinity, kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p81F, -0x1p81F}) {
    expect_one_poisoned_group(of_roots(4), what, probabilities(), bad);
  }
}

TEST(GroupRoots, LargeElementsStayFinite) {
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()), 0.0F);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = kAffineMaxMagnitude;
  for (const float y : restored(of_roots(1), what, x)) EXPECT_TRUE(std::isfinite(y));
}

TEST(GroupRoots, WantDitheringAndNoFloor) {
  CodecSpec spec = of_roots(4);
  EXPECT_NE(make_codec(spec), nullptr);
  spec.floor = -1.0F;
  EXPECT_EQ(make_codec(spec), nullptr);
  spec = of_roots(4);
  spec.subtractive_dither = false;
  EXPECT_EQ(make_codec(spec), nullptr);
}

}  // namespace
}  // namespace cinch::codecs::test
