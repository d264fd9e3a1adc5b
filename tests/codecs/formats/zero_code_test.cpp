// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "codecs/formats/group_quant.h"
#include "codecs/layout.h"
#include "tests/codecs/formats/restored.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

CodecSpec zero_coded(int bits, bool subtractive = true) {
  return {
      .name = "group_quant", .bits = bits, .subtractive_dither = subtractive, .zero_code = true};
}

const Description what = {.type = ElementType::float32, .layout = contiguous(64, {1, 1, 256})};

/// What a ReLU gives: half of it zeros.
std::vector<float> relu_output() {
  return values_of(what, normal_floats(what, true));
}

/// A group's range takes one more step than its elements.
TEST(ZeroCode, ErrsAsGroupsWithOneCodeLess) {
  const std::vector<float> x = relu_output();
  for (const int bits : {3, 4, 5}) {
    CodecSpec beside = zero_coded(bits);
    beside.zero_code = false;
    beside.with_sign = true;
    const double steps = (1 << bits) - 1;
    const double ratio = squared_error(x, restored(zero_coded(bits), what, x)) /
                         squared_error(x, restored(beside, what, x));
    EXPECT_NEAR(ratio, std::pow(steps / (steps - 1.0), 2), 0.1) << bits;
    EXPECT_EQ(
        make_codec(beside)->encoded_bytes(what) - make_codec(zero_coded(bits))->encoded_bytes(what),
        static_cast<std::size_t>(what.layout.elements() / 8));
  }
}

TEST(ZeroCode, SignsAndZerosAreExact) {
  const std::vector<float> x = relu_output();
  for (const int bits : {2, 3, 8}) {
    for (const bool subtractive : {false, true}) {
      const auto codec = make_codec(zero_coded(bits, subtractive));
      const Bytes bytes = encode(*codec, what, make_source(what, x));
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      const std::vector<float> signs = values_of(what, decode(*codec, what, bytes, Reads::sign));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(signs[i], x[i] > 0.0F ? 1.0F : 0.0F) << i;
        ASSERT_TRUE(x[i] != 0.0F || y[i] == 0.0F) << i;
      }
    }
  }
}

TEST(ZeroCode, TheMeanOverDrawsIsTheElement) {
  for (const bool subtractive : {false, true}) {
    EXPECT_LT(squared_bias(zero_coded(2, subtractive), what, relu_output()), 1.2);
  }
}

/// Whatever rounding does to lo and step, and whatever is drawn: no element above 0 gets code 0.
TEST(ZeroCode, NothingAboveZeroIsTakenForZero) {
  Random random(5);
  for (int round = 0; round < rounds(2000); ++round) {
    const int bits = static_cast<int>(draw(random, 2, 8));
    // Elements and their differences of any size.
    const float least = std::ldexp(1.0F + 0x1p-23F * static_cast<float>(draw(random, 0, 1 << 23)),
                                   static_cast<int>(draw(random, -149, 79)));
    const float extent = std::ldexp(least, static_cast<int>(draw(random, -24, 30)));
    if (!(least + extent <= kAffineMaxMagnitude)) continue;
    const float most = least + extent;
    const AffineRange range = range_above_zero(least, most, bits);
    const float lo = float_of_bf16(range.lo), scale = affine_scale(range);
    ASSERT_GE(affine_code(least, lo, scale, bits, 0), 1U)
        << least << " to " << most << ", " << bits;
    ASSERT_LE(affine_code(least, lo, scale, bits, 0), affine_code(most, lo, scale, bits, 65535));
  }
}

TEST(ZeroCode, AGroupOfZerosIsZero) {
  const std::vector<float> x(static_cast<std::size_t>(what.layout.elements()));
  EXPECT_EQ(restored(zero_coded(3), what, x), x);
}

TEST(ZeroCode, AGroupWithoutZerosHasNone) {
  std::vector<float> x(static_cast<std::size_t>(what.layout.elements()), 0.75F);
  for (const float y : restored(zero_coded(3), what, x)) EXPECT_NEAR(y, 0.75F, 0.01F);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = 1.5F;
  for (const float y : restored(zero_coded(3), what, x)) EXPECT_GT(y, 0.5F);
}

/// All signs of a poisoned group are exact.
TEST(ZeroCode, WhatCannotBeHeldPoisonsValuesAlone) {
  for (const float bad : {kInfinity, kNan, 0x1p81F}) {
    std::vector<float> x = relu_output();
    x[300] = bad;
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(zero_coded(3), engine);
      Bytes out(codec->encoded_bytes(what));
      EXPECT_FALSE(
          codec->encode(what, make_source(what, x).data(), out, {}, serial_for).representable);
      const std::vector<float> y = values_of(what, decode(*codec, what, out));
      const std::vector<float> signs = values_of(what, decode(*codec, what, out, Reads::sign));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::isnan(y[i]), i / 256 == 1) << i;
        ASSERT_EQ(signs[i], x[i] > 0.0F ? 1.0F : 0.0F) << i;
      }
    }
  }
}

TEST(ZeroCode, NegativeElementsAreNotRepresentable) {
  for (const float bad : {-1.0F, -0x1p-149F, -kInfinity}) {
    std::vector<float> x = relu_output();
    x[300] = bad;
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      EXPECT_TRUE(encode(*make_codec(zero_coded(3), engine), what, make_source(what, x)).empty());
    }
  }
}

TEST(ZeroCode, EnginesWriteTheSameBytes) {
  constexpr std::array kGroups = {8, 16, 24, 64, 256, 256, 1000, 3000};
  for_each_target([&](const std::string& target) {
    Random random(19);
    for (int round = 0; round < rounds(160) && !testing::Test::HasFailure(); ++round) {
      CodecSpec spec = zero_coded(static_cast<int>(draw(random, 2, 8)), round % 3 != 0);
      spec.group = kGroups[draw(random, 0, kGroups.size() - 1)];
      Description any{.type = kFloats[draw(random, 0, kFloats.size() - 1)],
                      .layout = random_layout(random)};
      if (round % 4 == 0) {  // groups of one feature
        spec.group = static_cast<int>(8 * draw(random, 1, 40));
        any.layout = samples_last(draw(random, 1, 3), {draw(random, 2, 90), 1, spec.group});
        ASSERT_TRUE(interleaves_groups(any.layout, spec.group));
      }
      const bool negative = round % 8 < 2;
      Bytes source = make_source(any, random_values(random, any.layout, !negative));
      if (negative) source = with_low_bits(random, any, std::move(source));
      if (round % 5 == 0) put_not_finite(random, any, source);
      SCOPED_TRACE(target + " " + describe(any, spec) + " G " + std::to_string(spec.group));
      expect_same_engines(spec, any, source, {static_cast<std::uint32_t>(random()), 3, random()});
    }
  });
}

TEST(ZeroCode, WantsTwoBitsAndNothingElseThatChangesCodes) {
  EXPECT_NE(make_codec(zero_coded(2)), nullptr);
  EXPECT_EQ(make_codec(zero_coded(1)), nullptr);
  CodecSpec spec = zero_coded(3);
  spec.roots = true;
  EXPECT_EQ(make_codec(spec), nullptr);
  spec = zero_coded(3);
  spec.floor = -1.0F;
  EXPECT_EQ(make_codec(spec), nullptr);
  spec = zero_coded(3);
  spec.without_zero_rows = true;
  EXPECT_EQ(make_codec(spec), nullptr);
  Description other = what;
  other.type = ElementType::float64;
  EXPECT_FALSE(make_codec(zero_coded(3))->accepts(other));
  other = what;
  const std::vector<std::uint8_t> bits(static_cast<std::size_t>(what.layout.planes()), 3);
  other.plane_bits = bits;
  EXPECT_FALSE(make_codec(zero_coded(3))->accepts(other));
}

TEST(ZeroCode, PlainGroupsHoldNoSigns) {
  CodecSpec spec = zero_coded(3);
  spec.zero_code = false;
  const auto codec = make_codec(spec);
  const Bytes bytes = encode(*codec, what, normal_floats(what, true));
  std::vector<float> target(static_cast<std::size_t>(what.layout.elements()));
  EXPECT_FALSE(codec->decode(what, bytes, target.data(), Reads::sign, serial_for));
}

}  // namespace
}  // namespace cinch::codecs::test
