// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/two_sided.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/codecs/formats/two_sided_cases.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kBothEngines = {Engine::reference, Engine::cpu};

CodecSpec two_sided(int bits, int group = 256, bool dithered = false) {
  return {.name = "two_sided", .bits = bits, .group = group, .subtractive_dither = dithered};
}

void expect_bytes(const Bytes& bytes, const std::vector<int>& expected) {
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(int(bytes[i]), expected[i]) << i;
}

// No draw matters to elements without fraction.
TEST(TwoSided, WorkedExample) {
  // Below: lo -3, step 1. Above: lo 0.5, step 0.5.
  const std::vector<float> x = {-3.0F, 0.5F, -1.0F, 2.0F, -0.0F, 1.5F, -2.0F, 1.0F};
  const Description what{.layout = contiguous(1, {1, 1, 8})};
  const Bytes source = make_source(what, x);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(two_sided(3, 8), engine);
    const Bytes bytes = encode(*codec, what, source);
    // Codes 0, 4, 2, 7, 3, 6, 1, 5.
    expect_bytes(bytes, {0,    0,    0,    0,    0,    0,    0,    0,     // not normalized
                         0,    0,    0,    0,    0,    0,    0,    0,     // no channels
                         0x40, 0xC0, 0x80, 0x3F, 0x00, 0x3F, 0x00, 0x3F,  // lo and step of sides
                         0xA0, 0x3E, 0xA7});
    std::vector<float> expected = x;
    expected[4] = 0.0F;
    EXPECT_EQ(values_of(what, decode(*codec, what, bytes)), expected);
    EXPECT_EQ(values_of(what, decode(*codec, what, bytes, Reads::sign)),
              (std::vector<float>{0, 1, 0, 1, 0, 1, 0, 1}));
  }
}

TEST(TwoSided, WorkedExampleOfNormalizedElements) {
  // Two channels of eight: y = 2x - 4 and y = -x. z = (x - 1) / 2 and z = x / 4.
  const std::vector<float> factor = {2, -1}, summand = {-4, 0}, center = {1, 0}, spread = {2, 4};
  const std::vector<float> x = {1, 3, 5, 7, 1, 3, 5, 7, -8, -4, 0, 4, 8, 12, -4, 0};
  const std::vector<float> upper = {0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0};
  const Description what{.layout = contiguous(1, {2, 2, 4}),
                         .sides = {factor.data(), summand.data(), center.data(), spread.data(), 8}};
  const Bytes source = make_source(what, x);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(two_sided(4, 16), engine);
    const Bytes bytes = encode(*codec, what, source);
    // z is 0, 1, 2, 3 twice; then -2, -1, 0, 1, 2, 3, -1, 0. So below lo 0 and step 3/7, rounded
    // up; above lo -2 and step 5/7. What is no multiple of a step depends on draws.
    ASSERT_EQ(bytes.size(), 16U + 16 + 8 + 8);
    expect_bytes(Bytes(bytes.begin(), bytes.begin() + 40),
                 {8,    0,    0,    0,    0,    0,    0,    0,     // run
                  2,    0,    0,    0,    0,    0,    0,    0,     // channels
                  0,    0,    0x80, 0x3F, 0,    0,    0,    0x40,  // 1, 2
                  0,    0,    0,    0,    0,    0,    0x80, 0x40,  // 0, 4
                  0x00, 0x00, 0xDC, 0x3E, 0x00, 0xC0, 0x37, 0x3F});
    EXPECT_EQ(values_of(what, decode(*codec, what, bytes, Reads::sign)), upper);
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_NEAR(y[k], x[k], 0.72F * spread[k / 8]) << k;
    }
    EXPECT_EQ(y[0], 1.0F);   // below, z = lo
    EXPECT_EQ(y[8], -8.0F);  // above, z = lo
    EXPECT_EQ(y[10], 0.0F);
  }
}

TEST(TwoSided, SizeDependsOnWhetherElementsAreNormalized) {
  const std::vector<float> ones(64, 1.0F);
  Description what{.layout = contiguous(4, {64, 8, 8})};
  const auto codec = make_codec(two_sided(4));
  const std::size_t codes = 4 * 4096 / 2, ranges = 4 * 16 * 8;
  EXPECT_EQ(codec->encoded_bytes(what), 16 + ranges + codes);
  what.sides = {.factor = ones.data(), .summand = ones.data(), .run = 64};
  EXPECT_EQ(codec->encoded_bytes(what), 16 + ranges + codes);
  what.sides = {.center = ones.data(), .spread = ones.data(), .run = 64};
  EXPECT_EQ(codec->encoded_bytes(what), 16 + 64 * 8 + ranges + codes);
  EXPECT_EQ(make_codec(two_sided(4, 256, true))->encoded_bytes(what), 32 + 64 * 8 + ranges + codes);
}

TEST(TwoSided, DescriptionsMustFit) {
  const std::vector<float> ones(64, 1.0F);
  const float* const array = ones.data();
  const PlaneLayout layout = contiguous(2, {8, 3, 3});
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(two_sided(4), engine);
    const auto accepts = [&](const Description::Sides& sides) {
      return codec->accepts({.layout = layout, .sides = sides});
    };
    EXPECT_TRUE(accepts({}));
    EXPECT_TRUE(accepts({.run = -3}));  // ignored
    EXPECT_TRUE(accepts({array, array, array, array, 9}));
    EXPECT_TRUE(accepts({.factor = array, .summand = array, .run = 72}));
    EXPECT_TRUE(accepts({.center = array, .spread = array, .run = 1}));
    for (const std::int64_t run : {0, -9, 5, 144}) {
      EXPECT_FALSE(accepts({array, array, array, array, run})) << run;
    }
    EXPECT_FALSE(accepts({.factor = array, .run = 9}));
    EXPECT_FALSE(accepts({.summand = array, .run = 9}));
    EXPECT_FALSE(accepts({.center = array, .run = 9}));
    EXPECT_FALSE(accepts({.spread = array, .run = 9}));
    EXPECT_FALSE(codec->accepts({.type = ElementType::float64, .layout = layout}));
    EXPECT_FALSE(codec->accepts({.type = ElementType::int32, .layout = layout}));
  }
}

TEST(TwoSided, ParametersOutOfRangeMakeNoCodec) {
  for (const int group : {-8, 0, 4, 12}) EXPECT_EQ(make_codec(two_sided(3, group)), nullptr);
  for (const int bits : {0, 1, 9}) EXPECT_EQ(make_codec(two_sided(bits)), nullptr);
  EXPECT_NE(make_codec(two_sided(2, 8)), nullptr);
  EXPECT_NE(make_codec(two_sided(8, 8)), nullptr);
}

/// Sides of the whole case, by the definition.
std::vector<float> sides_of(const SidedCase& c) {
  std::vector<float> sides(c.what.layout.elements());
  for (std::size_t k = 0; k < sides.size(); ++k) {
    const float x = element(c.what, c.source, static_cast<std::int64_t>(k));
    const Description::Sides& by = c.what.sides;
    bool upper = x > 0.0F;
    if (by.factor != nullptr) {
      const auto channel = static_cast<std::int64_t>(k) % c.what.layout.plane_size() / by.run;
      upper = std::fma(x, by.factor[channel], by.summand[channel]) > 0.0F;
    }
    sides[k] = upper ? 1.0F : 0.0F;
  }
  return sides;
}

TEST(TwoSided, EnginesWriteTheSameBytesAndSidesAreExact) {
  for_each_target([](const std::string& target) {
    Random random(21);
    for (int round = 0; round < rounds(300) && !testing::Test::HasFailure(); ++round) {
      const SidedCase c(random, round % 4 == 0);
      SCOPED_TRACE(target + " " + c.words());
      expect_same_engines(c.spec, c.what, c.source, c.key);
      const auto codec = make_codec(c.spec);
      const Encoding encoding = encode_any(*codec, c.what, c.source, c.key);
      ASSERT_EQ(encoding.bytes.size(), codec->encoded_bytes(c.what));
      ASSERT_EQ(values_of(c.what, decode(*codec, c.what, encoding.bytes, Reads::sign)),
                sides_of(c));
    }
  });
}

// Larger than what is drawn, packed or gathered at a time, and with channels of all lengths.
TEST(TwoSided, LargePlanesAreTheReferences) {
  for_each_target([](const std::string& target) {
    Random random(22);
    for (const std::int64_t run : {1, 7, 15, 16, 49, 64, 196, 3136}) {
      for (const bool last_format : {false, true}) {
        if (testing::Test::HasFailure()) return;
        SidedCase c(random, false);
        const std::int64_t channels = 9000 / run + 1;
        c.what.layout =
            last_format ? samples_last(2, {channels, 1, run}) : contiguous(2, {channels, 1, run});
        c.spec.group = run % 2 != 0 ? 256 : 2056;
        c.make_numbers(random, run, true);
        c.source = make_source(c.what, random_values(random, c.what.layout, false));
        SCOPED_TRACE(target + " " + c.words());
        expect_same_engines(c.spec, c.what, c.source, c.key);
      }
    }
  });
}

TEST(TwoSided, MemoryFormatDoesNotChangeTheBytes) {
  Random random(23);
  SidedCase c(random, false);
  const std::array<std::int64_t, 3> extent = {12, 9, 7};
  c.what.layout = contiguous(3, extent);
  c.make_numbers(random, 63, true);
  const std::vector<float> x = random_values(random, c.what.layout, false);
  Description last = c.what;
  last.layout = samples_last(3, extent);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(c.spec, engine);
    const Encoding rows = encode_any(*codec, c.what, make_source(c.what, x), c.key);
    EXPECT_EQ(encode_any(*codec, last, make_source(last, x), c.key).bytes, rows.bytes);
    EXPECT_EQ(values_of(last, decode(*codec, last, rows.bytes)),
              values_of(c.what, decode(*codec, c.what, rows.bytes)));
  }
}

/// Mean square error of what `spec` makes of normal numbers; sides split them at 0.
double square_error(const CodecSpec& spec) {
  const Description what{.layout = contiguous(4, {1, 64, 64})};
  const Bytes source = normal_floats(what, false);
  const std::vector<float> x = values_of(what, source);
  const auto codec = make_codec(spec);
  const std::vector<float> y =
      values_of(what, decode(*codec, what, encode(*codec, what, source, {1, 2, 3})));
  double sum = 0.0;
  for (std::size_t k = 0; k < x.size(); ++k) sum += std::pow(double{y[k]} - x[k], 2);
  return sum / static_cast<double>(x.size());
}

// Two ranges of half the length and half the codes: about the same steps.
TEST(TwoSided, AnErrorIsThatOfGroupsWithOneRange) {
  for (const bool dithered : {false, true}) {
    const CodecSpec one{.name = "group_quant", .bits = 4, .subtractive_dither = dithered};
    EXPECT_NEAR(square_error(two_sided(4, 256, dithered)) / square_error(one), 1.0, 0.2);
  }
  EXPECT_LT(square_error(two_sided(4, 256, true)), 0.6 * square_error(two_sided(4)));
}

TEST(TwoSided, ValuesAreUnbiased) {
  const Description what{.layout = contiguous(1, {1, 1, 64})};
  std::vector<float> x(64);
  for (int i = 0; i < 64; ++i) x[i] = std::sin(static_cast<float>(i)) * 3.0F;
  const Bytes source = make_source(what, x);
  for (const bool dithered : {false, true}) {
    const auto codec = make_codec(two_sided(3, 64, dithered));
    std::vector<double> sum(64, 0.0);
    constexpr int kDraws = 4000;
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const auto y = values_of(what, decode(*codec, what, encode(*codec, what, source, {i, 1, 2})));
      for (int k = 0; k < 64; ++k) sum[k] += y[k];
    }
    for (int k = 0; k < 64; ++k) EXPECT_NEAR(sum[k] / kDraws, x[k], 0.05) << k;
  }
}

TEST(TwoSided, WhatCannotBeHeldPoisonsItsGroupAndLeavesSides) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Description what{.layout = contiguous(2, {1, 1, 100})};
  const std::vector<float> good = values_of(what, normal_floats(what, false));
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity, 0x1p81F, -0x1p127F, 0x1.8p127F}) {
    for (const std::int64_t where : {0, 33, 99, 150}) {
      std::vector<float> x = good;
      x[where] = bad;
      const Bytes source = make_source(what, x);
      Bytes expected;
      for (const Engine engine : kBothEngines) {
        const auto codec = make_codec(two_sided(4, 32), engine);
        const Encoding encoding = encode_any(*codec, what, source);
        EXPECT_FALSE(encoding.representable);
        if (expected.empty()) expected = encoding.bytes;
        ASSERT_EQ(encoding.bytes, expected) << bad;
        const std::vector<float> y = values_of(what, decode(*codec, what, encoding.bytes));
        const std::vector<float> sides =
            values_of(what, decode(*codec, what, encoding.bytes, Reads::sign));
        for (std::int64_t k = 0; k < 200; ++k) {
          const bool same = k / 100 == where / 100 && k % 100 / 32 == where % 100 / 32;
          ASSERT_EQ(std::isfinite(y[k]), !same) << k;
          ASSERT_EQ(sides[k], x[k] > 0.0F ? 1.0F : 0.0F) << k;
        }
      }
    }
  }
}

TEST(TwoSided, ChannelsThatCannotBeNormalizedPoisonTheirGroups) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> ones(8, 1.0F), center(8, 0.5F), spread(8, 2.0F);
  const Description what{.layout = contiguous(2, {8, 4, 8}),
                         .sides = {ones.data(), ones.data(), center.data(), spread.data(), 32}};
  const Bytes source = normal_floats(what, false);
  struct Row {
    float center, spread;
    bool holds;
  };
  for (const Row& row :
       {Row{0.5F, 0.0F, false}, Row{0.5F, -1.0F, false}, Row{0.5F, kNan, false},
        Row{0.5F, kInfinity, false}, Row{0.5F, 0x1.8p40F, false}, Row{kNan, 1.0F, false},
        Row{-kInfinity, 1.0F, false}, Row{0x1.8p80F, 1.0F, false}, Row{-0x1p80F, 0x1p40F, true},
        Row{0.0F, 0x1p-60F, true}, Row{0.0F, 0x1p-130F, false}}) {
    center[2] = row.center;
    spread[2] = row.spread;
    for (const Engine engine : kBothEngines) {
      for (const bool dithered : {false, true}) {
        const auto codec = make_codec(two_sided(4, 64, dithered), engine);
        const Encoding encoding = encode_any(*codec, what, source);
        EXPECT_EQ(encoding.representable, row.holds) << row.center << " " << row.spread;
        const std::vector<float> y = values_of(what, decode(*codec, what, encoding.bytes));
        for (std::int64_t k = 0; k < 512; ++k) {
          ASSERT_EQ(std::isfinite(y[k]), row.holds || k % 256 / 64 != 1) << k;
        }
      }
    }
  }
}

TEST(TwoSided, HoldsTheSignsThatWithSignAsksFor) {
  const Description what{.layout = contiguous(2, {1, 9, 11})};
  const Bytes source = normal_floats(what, true);
  const std::vector<float> x = values_of(what, source);
  for (const SignedValues values :
       {SignedValues::non_negative, SignedValues::any, SignedValues::agreeing}) {
    CodecSpec spec = two_sided(4);
    const Bytes expected = encode(*make_codec(spec), what, source);
    spec.with_sign = true;
    spec.signed_values = values;
    const auto codec = make_codec(spec);
    const Bytes bytes = encode(*codec, what, source);
    EXPECT_EQ(bytes, expected);
    const std::vector<float> sides = values_of(what, decode(*codec, what, bytes, Reads::sign));
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_EQ(sides[k], x[k] > 0.0F ? 1.0F : 0.0F);
      if (x[k] == 0.0F) {
        EXPECT_EQ(float_bits(y[k]), 0U);
      }
    }
  }
}

TEST(TwoSided, EmptyTensorsAndSingleElements) {
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(two_sided(3), engine);
    const Description empty{.layout = contiguous(0, {1, 4, 4})};
    ASSERT_TRUE(codec->accepts(empty));
    const Bytes none = encode(*codec, empty, {});
    EXPECT_EQ(none.size(), 16U);
    EXPECT_TRUE(codec->decode(empty, none, nullptr, Reads::values, serial_for));
    const Description one{.layout = contiguous(1, {1, 1, 1})};
    const Bytes source = make_source(one, {-3.25F});
    EXPECT_EQ(decode(*codec, one, encode(*codec, one, source)), source);
  }
}

TEST(TwoSided, HeadersThatContradictThePlanesAreRefused) {
  std::vector<float> ones(24, 1.0F);
  const Description what{.layout = contiguous(2, {8, 3, 3}),
                         .sides = {ones.data(), ones.data(), ones.data(), ones.data(), 9}};
  const Description plain{.layout = what.layout};
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(two_sided(4, 32), engine);
    const Bytes bytes = encode(*codec, what, normal_floats(what, false));
    EXPECT_EQ(decode(*codec, plain, bytes), decode(*codec, what, bytes));
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    const std::int64_t size = what.layout.plane_size();
    const std::vector<std::array<std::int64_t, 2>> bad = {
        {9, 7},     {9, 0},     {0, 8},  {8, 8},         {-9, -8},      {size, 0}, {-9, 8},
        {kHuge, 8}, {9, kHuge}, {1, 72}, {kHuge, kHuge}, {size + 1, 1}, {9, 9}};
    for (const auto& [run, channels] : bad) {
      Bytes damaged = with_value(with_value(bytes, 0, run), 8, channels);
      EXPECT_TRUE(decode(*codec, what, damaged).empty()) << run << " " << channels;
    }
    // Fewer channels: fewer bytes than there are.
    EXPECT_FALSE(
        decode(*codec, what, with_value(with_value(bytes, 0, size), 8, std::int64_t{1})).empty());
  }
}

TEST(TwoSided, SignBitsAreWhatTheCodecSignHolds) {
  for (int bits = 2; bits <= 8; ++bits) {
    const Description what{.layout = contiguous(3, {4, 5, 10})};
    std::vector<float> x(what.layout.elements());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));
    const auto codec = make_codec(two_sided(bits, 64, true));
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    Bytes sides(x.size() / 8);
    ASSERT_TRUE(codec->decode_sign_bits(what, bytes, sides, two_threads));
    const auto sign = make_codec({.name = "sign"});
    EXPECT_EQ(sides, encode(*sign, what, decode(*codec, what, bytes, Reads::sign))) << bits;
    EXPECT_FALSE(codec->decode_sign_bits(what, std::span(bytes).first(bytes.size() - 1), sides,
                                         two_threads));
  }
}

TEST(TwoSided, SignBitsOnlyInMemoryOrder) {
  const Description last{.layout = samples_last(2, {8, 3, 5})};
  const Description ragged{.layout = contiguous(2, {1, 1, 13})};
  for (const Description& what : {last, ragged}) {
    const std::vector<float> x(what.layout.elements(), 1.0F);
    const auto codec = make_codec(two_sided(3));
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    Bytes sides(x.size());
    EXPECT_FALSE(codec->decode_sign_bits(what, bytes, sides, two_threads));
  }
}

TEST(TwoSided, LargeTensorsAreWrittenPastTheCaches) {
  const Description what{.layout = contiguous(1, {1, 1, (17 << 18) + 5})};
  std::vector<float> x(what.layout.elements());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 4) - 1.0F;
  const auto codec = make_codec(two_sided(2));
  const Bytes bytes = encode(*codec, what, make_source(what, x));
  EXPECT_TRUE(decodes_at_any_address(*codec, what, bytes, x));
}

}  // namespace
}  // namespace cinch::codecs::test
