// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/interval.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kEngines = {Engine::reference, Engine::cpu};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

CodecSpec interval(float lower, float upper, bool closed = false) {
  return {.name = "interval", .lower = lower, .upper = upper, .closed = closed};
}

TEST(Interval, IsOneStrictlyBetweenTheBounds) {
  const std::vector<float> x = {0.0F,  -0.0F, 0x1p-149F, 5.9999995F, 6.0F,
                                -1.0F, 3.0F,  kInfinity, -kInfinity, 6.0000005F};
  const Description what = flat(10, ElementType::float32);
  for (const Engine engine : kEngines) {
    const auto codec = make_codec(interval(0.0F, 6.0F), engine);
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    EXPECT_THAT(bytes, testing::ElementsAre(std::byte{0b01001100}, std::byte{0}));
    EXPECT_THAT(values_of(what, decode(*codec, what, bytes, Reads::interval)),
                testing::ElementsAre(0, 0, 3, 3, 0, 0, 3, 0, 0, 0));
    EXPECT_TRUE(decode(*codec, what, bytes, Reads::values).empty());
    EXPECT_TRUE(decode(*codec, what, bytes, Reads::sign).empty());
  }
}

TEST(Interval, EndsBelongToItWhereItIsClosed) {
  const std::vector<float> x = {0.0F,       -0.0F, -0x1p-149F, 6.0F,
                                6.0000005F, 3.0F,  kInfinity,  -kInfinity};
  const Description what = flat(8, ElementType::float32);
  for (const Engine engine : kEngines) {
    const auto bits = [&](float lower, float upper) {
      return encode(*make_codec(interval(lower, upper, true), engine), what, make_source(what, x));
    };
    EXPECT_THAT(bits(0.0F, 6.0F), testing::ElementsAre(std::byte{0b00101011}));
    EXPECT_THAT(bits(-0.0F, -0.0F), testing::ElementsAre(std::byte{0b00000011}));
    EXPECT_THAT(bits(6.0F, kInfinity), testing::ElementsAre(std::byte{0b01011000}));
    EXPECT_THAT(bits(-kInfinity, 0.0F), testing::ElementsAre(std::byte{0b10000111}));
    EXPECT_THAT(bits(-kInfinity, kInfinity), testing::ElementsAre(std::byte{0b11111111}));
  }
}

TEST(Interval, NegativeZeroBoundsAreZeros) {
  const Description what = flat(4, ElementType::bfloat16);
  const Bytes source = make_source(what, {0.0F, -0.0F, 0x1p-130F, -0x1p-130F});
  for (const Engine engine : kEngines) {
    EXPECT_THAT(encode(*make_codec(interval(-0.0F, 1.0F), engine), what, source),
                testing::ElementsAre(std::byte{0b0100}));
    EXPECT_THAT(encode(*make_codec(interval(-1.0F, -0.0F), engine), what, source),
                testing::ElementsAre(std::byte{0b1000}));
  }
}

/// What comes back lies on the same side of the bounds as every value of a 16-bit type, with bounds
/// that the type does not hold, and with PyTorch's comparison in float32.
TEST(Interval, KeepsTheSideOfEveryHalfPrecisionValue) {
  const std::vector<std::pair<float, float>> bounds = {
      {0.0F, 6.0F},       {-1.0F, 1.0F},     {0.1F, 0.3F},           {-0.0F, 0x1p-20F},
      {-kInfinity, 0.0F}, {0.0F, kInfinity}, {-1e30F, 1e30F},        {-65504.0F, 65504.0F},
      {0x1p-149F, 1e-6F}, {1.0F, 1.01F},     {-kInfinity, kInfinity}};
  constexpr std::int64_t kPatterns = 1 << 16;
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    const Description what = flat(kPatterns, type);
    Bytes source(source_bytes(what));
    for (std::int64_t k = 0; k < kPatterns; ++k) {
      const bool nan = std::isnan(value_of(type, static_cast<std::uint64_t>(k)));
      reference::store_bits(source.data(), k, 2, nan ? 0 : static_cast<std::uint64_t>(k));
    }
    for (std::size_t i = 0; i < 2 * bounds.size(); ++i) {
      const auto& [lower, upper] = bounds[i / 2];
      const IntervalBounds of = {lower, upper, i % 2 != 0};
      SCOPED_TRACE(std::to_string(lower) + " to " + std::to_string(upper));
      for (const Engine engine : kEngines) {
        const auto codec = make_codec(interval(lower, upper, of.closed), engine);
        ASSERT_TRUE(codec->accepts(what));
        const Bytes bytes = encode(*codec, what, source);
        const Bytes target = decode(*codec, what, bytes, Reads::interval);
        ASSERT_FALSE(target.empty());
        for (std::int64_t k = 0; k < kPatterns; ++k) {
          const float before = element(what, source, k);
          const float after = element(what, target, k);
          ASSERT_EQ(is_inside(before, of), is_inside(after, of)) << before;
          ASSERT_FALSE(std::isnan(after));
        }
      }
    }
  }
}

TEST(Interval, NanIsNotRepresentable) {
  for (const Engine engine : kEngines) {
    const auto codec = make_codec(interval(0.0F, 6.0F), engine);
    for (const ElementType type : kFloats) {
      for (const std::int64_t where : {0, 63, 64, 129}) {
        const Description what = flat(130, type);
        Bytes source(source_bytes(what));
        const std::uint64_t nan = type == ElementType::float32 ? 0xFF800001U : 0xFFFFU;
        reference::store_bits(source.data(), where, element_size(type), nan);
        EXPECT_TRUE(encode(*codec, what, source).empty());
      }
    }
  }
}

TEST(Interval, BoundsHaveToHoldAValue) {
  EXPECT_EQ(make_codec(interval(1.0F, 1.0F)), nullptr);
  EXPECT_EQ(make_codec(interval(2.0F, 1.0F)), nullptr);
  EXPECT_NE(make_codec(interval(1.0F, 1.0F, true)), nullptr);
  EXPECT_EQ(make_codec(interval(2.0F, 1.0F, true)), nullptr);
  EXPECT_EQ(make_codec(interval(std::nanf(""), 1.0F)), nullptr);
  EXPECT_EQ(make_codec(interval(0.0F, std::nanf(""))), nullptr);
  // bfloat16 has nothing between 1 and 1.0078125, float16 nothing above 65504 but infinity.
  const auto narrow = make_codec(interval(1.0F, 1.005F));
  EXPECT_TRUE(narrow->accepts(flat(8, ElementType::float32)));
  EXPECT_TRUE(narrow->accepts(flat(8, ElementType::float16)));
  EXPECT_FALSE(narrow->accepts(flat(8, ElementType::bfloat16)));
  EXPECT_FALSE(make_codec(interval(1e5F, 1e6F))->accepts(flat(8, ElementType::float16)));
  EXPECT_FALSE(narrow->accepts(flat(8, ElementType::float64)));
}

TEST(Interval, EmptyAndSingleElements) {
  for (const Engine engine : kEngines) {
    const auto codec = make_codec(interval(-1.0F, 1.0F), engine);
    Description what = flat(1, ElementType::float16);
    what.layout.outer = 0;
    EXPECT_EQ(codec->encoded_bytes(what), 0U);
    EXPECT_TRUE(codec->encode(what, nullptr, {}, {}, serial_for).representable);
    EXPECT_TRUE(codec->decode(what, {}, nullptr, Reads::interval, serial_for));
    what = flat(1, ElementType::float16);
    EXPECT_THAT(encode(*codec, what, make_source(what, {0.5F})),
                testing::ElementsAre(std::byte{1}));
  }
}

}  // namespace
}  // namespace cinch::codecs::test
