// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_formats.h"

#include <cmath>

#include <gtest/gtest.h>

namespace cinch::codecs {
namespace {

TEST(FloatFormats, EveryFiniteFloat16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = float_of_f16(static_cast<std::uint16_t>(bits));
    if ((bits & 0x7FFFU) > 0x7C00U) {
      EXPECT_TRUE(std::isnan(x)) << bits;
    } else if ((bits & 0x7FFFU) == 0x7C00U) {
      EXPECT_TRUE(std::isinf(x)) << bits;
    } else {
      ASSERT_EQ(f16_nearest(x), bits);
    }
  }
}

TEST(FloatFormats, Float16ValuesAreIeee) {
  EXPECT_EQ(float_of_f16(0x3C00), 1.0F);
  EXPECT_EQ(float_of_f16(0xC248), -3.140625F);
  EXPECT_EQ(float_of_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(float_of_f16(0x03FF), 1023 * 0x1p-24F);
  EXPECT_EQ(float_of_f16(0x7BFF), 65504.0F);
}

TEST(FloatFormats, Float16RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = float_of_f16(bits);
    const float high = float_of_f16(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(f16_nearest(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(f16_nearest(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(f16_nearest(-std::nextafter(middle, 1e9F)), 0x8000U + bits + 1);
  }
}

TEST(FloatFormats, Float16NeverOverflows) {
  EXPECT_EQ(f16_nearest(1e30F), 0x7BFF);
  EXPECT_EQ(f16_nearest(-65520.0F), 0xFBFF);
}

TEST(FloatFormats, Bfloat16RoundsAsAsked) {
  EXPECT_EQ(bf16_nearest(1.5F), 0x3FC0);
  EXPECT_EQ(bf16_nearest(float_of_bits(0x3F808000)), 0x3F80);
  EXPECT_EQ(bf16_nearest(float_of_bits(0x3F818000)), 0x3F82);
  for (const std::uint32_t bits : {0x3F808000U, 0x3F800001U, 0xBF808000U, 0x80000001U, 0x1U}) {
    const float x = float_of_bits(bits);
    EXPECT_LE(float_of_bf16(bf16_down(x)), x);
    EXPECT_GT(float_of_bf16(bf16_down(x)), x - std::fabs(x) * 0x1p-6F - 0x1p-132F);
    if (x < 0.0F) continue;
    EXPECT_GE(float_of_bf16(bf16_up(x)), x);
    EXPECT_LT(float_of_bf16(bf16_up(x)), x + x * 0x1p-6F + 0x1p-132F);
  }
  EXPECT_EQ(bf16_down(-1.5F), 0xBFC0);
  EXPECT_EQ(bf16_up(1.0F), 0x3F80);
}

}  // namespace
}  // namespace cinch::codecs
