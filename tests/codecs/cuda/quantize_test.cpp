// SPDX-License-Identifier: Apache-2.0
#ifdef CINCH_CUDA_ON_HOST  // device functions, which the host's stand-in can call
#include "codecs/cuda/elements/quantize.cuh"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "codecs/cuda/elements/pairs.cuh"

namespace cinch::codecs::cuda {
namespace {

// For every significand: the quotient is as a division rounds it, for each number of bits.
TEST(Quantize, CorrectedQuotientsAreQuotients) {
  for (int bits = 1; bits <= 8; ++bits) {
    const auto divisor = static_cast<float>((1 << bits) - 1);
    const float reciprocal = 1.0F / divisor;
    for (std::uint32_t significand = 0; significand < 1U << 23; ++significand) {
      for (const std::uint32_t exponent : {127U, 208U}) {
        const float x = float_of_bits(exponent << 23 | significand);
        if (corrected_quotient(x, divisor, reciprocal) != x / divisor) {
          FAIL() << x << " / " << divisor;
        }
      }
    }
  }
}

TEST(Quantize, CorrectedReciprocalsAreReciprocals) {
  for (std::uint32_t significand = 128; significand < 256; ++significand) {
    for (int exponent = -117; exponent <= 80; ++exponent) {
      const float x = std::ldexp(static_cast<float>(significand), exponent);
      for (int off = -2; off <= 2; ++off) {
        const float near = float_of_bits(float_bits(1.0F / x) + static_cast<unsigned>(off));
        ASSERT_EQ(corrected_reciprocal(x, near), 1.0F / x) << x;
      }
    }
  }
}

TEST(Quantize, RangesAreTheReferences) {
  std::mt19937 random(3);
  for (int round = 0; round < 1000000; ++round) {
    float min = float_of_bits(random());
    float max = round % 3 == 0 ? min + std::abs(min) * 0x1p-20F : float_of_bits(random());
    if (round % 100 == 0) max = min;
    if (!are_quantizable(min, max) || !are_quantizable(max, min)) continue;
    if (min > max) std::swap(min, max);
    const int bits = 1 + static_cast<int>(random() % 8);
    const AffineRange expected = affine_range(min, max, bits);
    const FloatRange range = RangeMaker(bits).range(min, max);
    ASSERT_EQ(range.word(), expected.lo | std::uint32_t{expected.step} << 16)
        << min << " to " << max << ", " << bits << " bits";
    ASSERT_EQ(RangeMaker::scale(range.step), affine_scale(expected));
  }
}

// At the ends of the range and around the middle between codes, for every number of bits.
TEST(Quantize, PackedCodesAreTheReferences) {
  std::mt19937 random(4);
  for (int round = 0; round < 200000; ++round) {
    const int bits = 1 + static_cast<int>(random() % 8);
    const float max = std::ldexp(1.0F + static_cast<float>(random()) * 0x1p-32F,
                                 static_cast<int>(random() % 60) - 30);
    const float min = round % 2 == 0 ? -max * 0.37F : max * 0.9F;
    const AffineRange range = affine_range(min, max, bits);
    const float lo = float_of_bf16(range.lo);
    const float scale = affine_scale(range);
    philox::Block draws;
    for (std::uint32_t& word : draws.word) word = random();
    float t[kStretch];
    std::uint64_t expected = 0;
    for (int j = 0; j < kStretch; ++j) {
      float x = min + (max - min) * static_cast<float>(random()) * 0x1p-32F;
      if (random() % 4 == 0) x = random() % 2 == 0 ? min : max;
      x = std::fmin(std::fmax(x, min), max);
      t[j] = (x - lo) * scale;
      const std::uint32_t draw = draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
      expected |= std::uint64_t{affine_code(x, lo, scale, bits, draw)} << (j * bits);
    }
    const std::uint64_t packed = CodePacker(static_cast<std::uint32_t>(bits)).pack(t, draws);
    ASSERT_EQ((packed ^ expected) << (64 - 8 * bits), 0U) << bits;
  }
}

TEST(Quantize, RoundKeysGiveTheSameDraws) {
  const RandomKey key{0x12345678U, 0x9ABCDEF0U, 0x1122334455667788U};
  for (const std::uint64_t index : {0ULL, 1ULL, 0xFFFFFFFFULL, 0x123456789ABULL}) {
    const philox::Block expected = philox::draw_block(key, index);
    const philox::Block block = RoundKeys(key).draw_block(index);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], expected.word[i]);
  }
}

TEST(Quantize, ExtremesFindNanAndOrder) {
  constexpr std::uint32_t kNan = 0x7FC1U;
  Extremes<ElementType::bfloat16> some(0x3F80C000U);  // 1 and -2
  some.add(0x40400000U);                              // 3 and 0
  EXPECT_EQ(some.min(), -2.0F);
  EXPECT_EQ(some.max(), 3.0F);
  EXPECT_TRUE(are_quantizable(some.min(), some.max()));
  some.add(kNan << 16 | 0x3F80U);
  EXPECT_FALSE(are_quantizable(some.min(), some.max()));
  Extremes<ElementType::float32> one(float_bits(-1.0F));
  one.add(float_bits(0x1.000002p80F));
  EXPECT_FALSE(are_quantizable(one.min(), one.max()));
}

}  // namespace
}  // namespace cinch::codecs::cuda
#endif
