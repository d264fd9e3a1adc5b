// SPDX-License-Identifier: Apache-2.0
#include "codecs/error_bounded.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

using testing::ElementsAre;

CodecSpec bounded(float bound) {
  return {.name = "error_bounded", .error_bound = bound};
}

Description row(std::int64_t n, ElementType type = ElementType::float32) {
  return {.type = type, .layout = contiguous(1, {1, 1, n})};
}

/// Rate of block `b`.
unsigned rate(const Bytes& bytes, std::int64_t elements, std::int64_t b) {
  return std::to_integer<unsigned>(bytes[ErrorBoundedSections(elements).rates + b]);
}

/// Word `i` of the payload.
std::uint32_t word(const Bytes& bytes, std::int64_t elements, std::int64_t i) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + ErrorBoundedSections(elements).payload + 4 * i, 4);
  return value;
}

TEST(ErrorBounded, TheWorkedExampleBitForBit) {
  // The values of error_bound_test; the codes are 0 0 1 1 3 5 -2 0.
  const std::vector<float> x = {0.0F, 0.0F, 0.05F, 0.15F, 0.42F, 1.0F, -0.33F, 0.0F};
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(bounded(0.1F), engine);
    const Bytes bytes = encode(*codec, row(8), make_source(row(8), x));
    const ErrorBoundedSections at(8);
    EXPECT_EQ(at.rates, 32);
    EXPECT_EQ(at.payload, 40);
    ASSERT_EQ(bytes.size(), 40 + 4 * 4);
    EXPECT_EQ(bytes[0], std::byte{1});
    EXPECT_EQ(bytes[1], std::byte{0});
    std::array<std::uint64_t, 3> numbers;  // elements, size, the superblock's payload
    std::memcpy(numbers.data(), bytes.data() + 8, sizeof numbers);
    EXPECT_THAT(numbers, ElementsAre(8, bytes.size(), 0));
    EXPECT_EQ(rate(bytes, 8, 0), 3 | kRateSigns);
    EXPECT_EQ(word(bytes, 8, 0), 0b01000000U);  // signs
    EXPECT_EQ(word(bytes, 8, 1), 0b00111100U);  // odd codes
    EXPECT_EQ(word(bytes, 8, 2), 0b01010000U);
    EXPECT_EQ(word(bytes, 8, 3), 0b00100000U);
  }
}

TEST(ErrorBounded, BlocksTakeWhatTheyNeed) {
  std::vector<float> x(7 * 32 + 5, 0.0F);
  for (int i = 0; i < 32; ++i) x[32 + i] = 0.0099F * static_cast<float>(i);   // codes 0 to 16
  for (int i = 0; i < 32; ++i) x[64 + i] = -0.0099F * static_cast<float>(i);  // and their negatives
  x[96] = 1e9F;                                                               // 2^33 steps
  x[128 + 31] = std::numeric_limits<float>::infinity();
  x[160 + 3] = 5.99F;  // code 300
  x[7 * 32 + 4] = 0.019F;
  const Description what = row(std::int64_t(x.size()));
  const Bytes source = make_source(what, x);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(bounded(0.01F), engine);
    const Bytes bytes = encode(*codec, what, source);
    const auto n = std::int64_t(x.size());
    const std::array<unsigned, 8> rates = {rate(bytes, n, 0), rate(bytes, n, 1), rate(bytes, n, 2),
                                           rate(bytes, n, 3), rate(bytes, n, 4), rate(bytes, n, 5),
                                           rate(bytes, n, 6), rate(bytes, n, 7)};
    EXPECT_THAT(rates, ElementsAre(0, 5, 5 | kRateSigns, kRawRate, kRawRate, 9, 0, 1));
    EXPECT_EQ(bytes.size(), ErrorBoundedSections(n).payload + 20 + 24 + 128 + 128 + 36 + 4);
    // Neighbours of what has no code are exact.
    const Bytes decoded = decode(*codec, what, bytes);
    EXPECT_EQ(std::memcmp(decoded.data() + 4 * 96, source.data() + 4 * 96, 4 * 64), 0);
  }
}

TEST(ErrorBounded, SixteenBitsTakeTheFineLatticeWhereRoundingEatsTheBound) {
  // At 2 to 4, bfloat16 counts in 1/64; 0.013 is less than that, and bins of 0.026 hold one or two.
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i) x[i] = 2.0F + static_cast<float>(i) / 64.0F;
  const Description what = row(32, ElementType::bfloat16);
  const Bytes source = make_source(what, x);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(bounded(0.013F), engine);
    const Bytes bytes = encode(*codec, what, source);
    EXPECT_EQ(rate(bytes, 32, 0), 7 | kRateHalves);
    EXPECT_EQ(decode(*codec, what, bytes), source);  // exact, since the bound is below one unit
  }
}

TEST(ErrorBounded, ZerosOfBothSignsAreExact) {
  std::vector<float> x(96, 0.0F);
  x[5] = -0.0F;
  x[40] = -0.0F;
  x[41] = 0.5F;
  const Description what = row(96);
  const Bytes source = make_source(what, x);
  const auto codec = make_codec(bounded(0.01F));
  const Bytes bytes = encode(*codec, what, source);
  EXPECT_EQ(rate(bytes, 96, 0), kRateSigns);
  EXPECT_EQ(rate(bytes, 96, 2), 0U);
  const Bytes decoded = decode(*codec, what, bytes);
  for (int k = 0; k < 96; ++k) {
    if (k == 41) continue;
    EXPECT_EQ(reference::load_bits(decoded.data(), k, 4),
              reference::load_bits(source.data(), k, 4));
  }
}

TEST(ErrorBounded, SignPlanesPayForNonNegativeData) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(32 * 4096);
  for (float& v : x) v = std::max(0.0F, normal(random));
  const Description what = row(std::int64_t(x.size()));
  const auto codec = make_codec(bounded(0.01F));
  const std::size_t without = encode(*codec, what, make_source(what, x)).size();
  for (std::size_t i = 0; i < x.size(); i += 32) {
    const auto positive = std::find_if(x.begin() + i, x.end(), [](float v) { return v > 0.0F; });
    *positive = -*positive;
  }
  const std::size_t with = encode(*codec, what, make_source(what, x)).size();
  EXPECT_EQ(with - without, 4 * x.size() / 32);
}

TEST(ErrorBounded, NeverExceedsItsBytes) {
  std::mt19937 random(4);
  for (const ElementType type : kFloats) {
    const Description what = row(4096 * 3 + 77, type);
    Bytes source(source_bytes(what));
    for (std::byte& b : source) b = static_cast<std::byte>(random());
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(bounded(1e-30F), engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_LE(bytes.size(), codec->encoded_bytes(what));
      EXPECT_EQ(decode(*codec, what, bytes), source);
    }
  }
}

/// Some encoded data with blocks of every kind.
struct Sample {
  Description what;
  Bytes source;
  Bytes bytes;

  explicit Sample(ElementType type) {
    Random random(9);
    what = {.type = type, .layout = channels_last(3, 4, {1, 37, 31})};
    std::vector<float> x(what.layout.elements());
    std::normal_distribution<float> normal;
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = normal(random) * std::exp2(static_cast<float>(k / 32 % 30) - 12.0F);
    }
    x[100] = std::numeric_limits<float>::infinity();
    source = make_source(what, x);
    bytes = encode(*make_codec(bounded(0.01F)), what, source);
  }
};

TEST(ErrorBounded, DamagedHeadersAreRefused) {
  const Sample good(ElementType::float32);
  const ErrorBoundedSections at(good.what.layout.elements());
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(bounded(0.01F), engine);
    const auto refused = [&](std::int64_t offset, auto value) {
      Bytes damaged = good.bytes;
      std::memcpy(damaged.data() + offset, &value, sizeof value);
      return decode(*codec, good.what, damaged).empty();
    };
    EXPECT_FALSE(refused(0, std::uint8_t{1}));
    EXPECT_TRUE(refused(0, std::uint8_t{2}));
    EXPECT_TRUE(refused(1, std::uint8_t{1}));
    EXPECT_TRUE(refused(3, std::uint8_t{1}));
    for (const float bad : {0.0F, -0.01F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      EXPECT_TRUE(refused(4, bad));
    }
    EXPECT_TRUE(refused(8, good.what.layout.elements() + 1));
    EXPECT_TRUE(refused(16, std::int64_t(good.bytes.size()) + 1));
    EXPECT_TRUE(refused(16, std::int64_t(good.bytes.size()) - 1));
    EXPECT_TRUE(refused(16, at.payload - 1));
    EXPECT_TRUE(refused(16, std::int64_t{-1}));
    for (const std::uint64_t offset :
         {std::uint64_t(good.bytes.size() - at.payload), ~std::uint64_t{0}, std::uint64_t{1} << 63,
          std::uint64_t{1} << 32}) {
      EXPECT_TRUE(refused(at.kIndex, offset));
      EXPECT_TRUE(refused(at.kIndex + 8 * (at.superblocks - 1), offset));
    }
    for (const unsigned bad : {24U, 31U, 24U | kRateSigns, kRawRate | 1U, 0xFFU}) {
      EXPECT_TRUE(refused(at.rates + 40, static_cast<std::uint8_t>(bad)));
    }
  }
}

TEST(ErrorBounded, DamagedBytesStayInBounds) {
  std::mt19937 random(3);
  for (const ElementType type : kFloats) {
    const Sample good(type);
    int decoded = 0;
    for (int round = 0; round < 400; ++round) {
      Bytes damaged = good.bytes;
      for (int i = 0; i < 3; ++i) {
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      }
      if (round % 4 == 0) damaged.resize(random() % damaged.size());
      damaged.shrink_to_fit();
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const auto codec = make_codec(bounded(0.01F), engine);
        decoded += !decode(*codec, good.what, damaged).empty();
        decoded += !decode(*codec, good.what, damaged, Reads::sign).empty();
      }
    }
    EXPECT_GT(decoded, 0);
  }
}

TEST(ErrorBounded, DecodesWithTheBoundOfTheData) {
  const Sample good(ElementType::float32);
  const Bytes expected = decode(*make_codec(bounded(0.01F)), good.what, good.bytes);
  EXPECT_EQ(decode(*make_codec(bounded(7.0F)), good.what, good.bytes), expected);
}

}  // namespace
}  // namespace cinch::codecs::test
