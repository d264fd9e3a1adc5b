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
constexpr float kFloor = -3.0F;

CodecSpec with_floor(float floor, int bits = 3) {
  return {.name = "group_quant", .bits = bits, .subtractive_dither = true, .floor = floor};
}

const Description what = {.type = ElementType::float32, .layout = contiguous(4, {1, 1, 256})};

/// Most lie around 0; few are far below the floor.
std::vector<float> with_few_small_ones() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 64 == 0 ? -12.0F + normal(random) : normal(random);
  }
  return x;
}

TEST(GroupFloor, BytesAreThoseOfRaisedElements) {
  const std::vector<float> x = with_few_small_ones();
  std::vector<float> raised = x;
  for (float& each : raised) each = std::fmax(each, kFloor);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto floored = make_codec(with_floor(kFloor), engine);
    const auto plain = make_codec(with_floor(-kInfinity), engine);
    EXPECT_EQ(encode(*floored, what, make_source(what, x)),
              encode(*plain, what, make_source(what, raised)));
  }
}

TEST(GroupFloor, WhatIsAboveIsMoreExact) {
  const std::vector<float> x = with_few_small_ones();
  const auto squares_above = [&](float floor) {
    const auto codec = make_codec(with_floor(floor));
    const std::vector<float> y =
        values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))));
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] > kFloor) sum += (y[i] - x[i]) * (y[i] - x[i]);
    }
    return sum;
  };
  EXPECT_LT(squares_above(kFloor), 0.3 * squares_above(-kInfinity));
}

TEST(GroupFloor, AGroupBelowItIsTheFloor) {
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()), -5.0F);
  x[3] = -kAffineMaxMagnitude;
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(with_floor(kFloor), engine);
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    for (const float y : values_of(what, decode(*codec, what, bytes))) EXPECT_EQ(y, kFloor);
  }
}

TEST(GroupFloor, WhatCannotBeHeldIsNoSmallElement) {
  for (const float bad : {-kInfinity, std::numeric_limits<float>::quiet_NaN(), -0x1p81F}) {
    expect_one_poisoned_group(with_floor(kFloor), what, with_few_small_ones(), bad);
  }
}

TEST(GroupFloor, IsRoundedDownToBfloat16) {
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()), -9.0F);
  const auto codec = make_codec(with_floor(-3.001F));
  const Bytes bytes = encode(*codec, what, make_source(what, x));
  for (const float y : values_of(what, decode(*codec, what, bytes))) EXPECT_EQ(y, -3.015625F);
}

TEST(GroupFloor, OnlyFloorsThatCanBeHeldMakeACodec) {
  for (const float floor :
       {kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p81F, -0x1p81F}) {
    EXPECT_EQ(make_codec(with_floor(floor)), nullptr) << floor;
  }
  EXPECT_NE(make_codec(with_floor(-kInfinity)), nullptr);
  EXPECT_NE(make_codec(with_floor(0)), nullptr);
}

}  // namespace
}  // namespace cinch::codecs::test
