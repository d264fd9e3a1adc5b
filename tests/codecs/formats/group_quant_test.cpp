// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/group_quant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/element_bits.h"
#include "codecs/reference/group_quant_group.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/resnet50.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

using reference::decode_group;
using reference::decode_group_dithered;
using reference::encode_group;
using reference::QuantizedGroup;
using testing::ElementsAre;

CodecSpec group_quant(int bits, int group = 256) {
  return {.name = "group_quant", .bits = bits, .group = group};
}

Description described(PlaneLayout layout, ElementType type = ElementType::float32,
                      std::span<const std::uint8_t> plane_bits = {}) {
  return {.type = type, .layout = layout, .plane_bits = plane_bits};
}

std::vector<float> normal_values(std::int64_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3F * scale, scale);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

/// Every draw there is, each once.
std::vector<std::uint32_t> all_draws() {
  std::vector<std::uint32_t> draws(65536);
  std::iota(draws.begin(), draws.end(), 0U);
  return draws;
}

/// A group from -1 to 2 with 65536 times x, each with another draw, behind its two ends.
QuantizedGroup with_all_draws(float x, int bits) {
  std::vector<float> group(65538, x);
  group[0] = -1.0F;
  group[1] = 2.0F;
  std::vector<std::uint32_t> draws = all_draws();
  draws.insert(draws.begin(), {0, 0});
  return encode_group(group, bits, draws);
}

struct Moments {
  double mean;
  double variance;
};

Moments moments(std::span<const float> values) {
  double sum = 0.0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0.0;
  for (const float v : values) squares += (v - mean) * (v - mean);
  return {mean, squares / static_cast<double>(values.size())};
}

CodecSpec dithered(int bits, int group = 256) {
  CodecSpec spec = group_quant(bits, group);
  spec.subtractive_dither = true;
  return spec;
}

// Section 4.1 worked by hand. A draw rounds up when it is at least 65536 * (1 - frac), that is when
// rho = 1 - draw / 65536 is at most frac.
TEST(GroupQuant, WorkedExample) {
  struct Row {
    std::array<float, 4> x;
    std::array<std::uint32_t, 4> draws;
    std::uint16_t lo;
    std::array<float, 4> decoded;
  };
  for (const Row& row : {Row{{0.0F, 0.5F, 1.25F, 3.0F},
                             {6554, 45875, 13107, 32768},
                             0x0000,
                             {0.0F, 1.0F, 1.0F, 3.0F}},
                         Row{{-1.0F, -0.25F, 0.5F, 2.0F},
                             {32768, 32768, 26214, 32768},
                             0xBF80,
                             {-1.0F, 0.0F, 0.0F, 2.0F}}}) {
    const QuantizedGroup group = encode_group(row.x, 2, row.draws);
    EXPECT_EQ(group.range, (AffineRange{row.lo, 0x3F80}));
    EXPECT_THAT(group.codes, ElementsAre(0, 1, 1, 3));
    Bytes packed(1);
    for (int i = 0; i < 4; ++i) reference::put_bits(packed, 2 * i, 2, group.codes[i]);
    EXPECT_EQ(packed[0], std::byte{0xD4});
    EXPECT_THAT(decode_group(group), testing::ElementsAreArray(row.decoded));
    // s²p(1 - p), summed, against R²G / (6q²).
    const double step = float_of_bf16(group.range.step);
    double variance = 0.0;
    for (const float x : row.x) {
      const double u = (x - float_of_bf16(row.lo)) / step;
      const double p = u - std::floor(u);
      variance += step * step * p * (1.0 - p);
    }
    EXPECT_DOUBLE_EQ(variance, 0.4375);
    EXPECT_NEAR(3.0 * 3.0 * 4 / (6 * 3 * 3), 0.6667, 1e-4);
  }
}

TEST(GroupQuant, BytesOfTheWorkedExamplesGroups) {
  // The same groups, filled up to eight with what has no fraction: no draw matters to 0 and 3.
  std::vector<float> x = {0.0F,  0.0F, 3.0F, 3.0F, 0.0F, 1.0F, 2.0F,  3.0F,
                          -1.0F, 0.0F, 1.0F, 2.0F, 2.0F, 2.0F, -1.0F, -1.0F};
  const Description what = described(contiguous(1, {1, 1, 16}));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const Bytes bytes = encode(*make_codec(group_quant(2, 8), engine), what, make_source(what, x));
    const std::array<int, 12> expected = {0x00, 0x00, 0x80, 0x3F, 0x80, 0xBF,
                                          0x80, 0x3F, 0xF0, 0xE4, 0xE4, 0x0F};
    ASSERT_EQ(bytes.size(), expected.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
    }
  }
}

TEST(GroupQuant, BitsPerElement) {
  struct Row {
    std::int64_t plane;
    int bits;
    int group;
    double expected;
  };
  for (const Row& row : {Row{256, 2, 256, 2.125},
                         {64 * 56 * 56, 2, 256, 2.125},
                         {2048 * 49, 2, 256, 2.125},
                         {64 * 56 * 56, 4, 256, 4.125},
                         {64 * 56 * 56, 2, 64, 2.5},
                         {1000, 2, 256, 2.128},      // a ragged group is packed unpadded
                         {100, 3, 256, 3.36},        // (304 + 32) / 100
                         {8, 2, 8, 2.0 + 32.0 / 8},  // 32/G
                         {1, 1, 256, 40.0}}) {
    const Description what = described(contiguous(32, {1, 1, row.plane}));
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(group_quant(row.bits, row.group), engine);
      const double bits = 8.0 * static_cast<double>(codec->encoded_bytes(what));
      EXPECT_DOUBLE_EQ(bits / static_cast<double>(what.layout.elements()), row.expected)
          << row.plane;
    }
  }
}

/// Groups run over a whole sample.
ResNet50 resnet50(int bits, bool twice) {
  return ResNet50(
      [bits](std::int64_t planes, std::int64_t edge) {
        const Description what = described(contiguous(1, {1, 1, planes * edge * edge}));
        return static_cast<std::int64_t>(make_codec(group_quant(bits))->encoded_bytes(what));
      },
      twice);
}

TEST(GroupQuant, ResNet50TakesWhatThePaperSays) {
  EXPECT_NEAR(mebibytes(resnet50(2, false).raw), 81.9, 0.1);
  EXPECT_NEAR(mebibytes(resnet50(2, true).stored), 6.85, 0.01);
  EXPECT_NEAR(mebibytes(resnet50(4, true).stored), 12.05, 0.01);
  const auto ratio = [](const ResNet50& net) {
    return static_cast<double>(net.raw) / static_cast<double>(net.stored);
  };
  EXPECT_NEAR(ratio(resnet50(2, false)), 12.7, 0.05);
  EXPECT_NEAR(ratio(resnet50(4, false)), 7.3, 0.05);
}

TEST(GroupQuant, MixedBitsOf125OnAverage) {
  const std::vector<std::uint8_t> bits = {1, 1, 2, 1, 1, 1, 1, 2};
  const Description what = described(contiguous(8, {1, 1, 2048}), ElementType::float32, bits);
  const auto codec = make_codec(group_quant(2));
  // 8 bits a sample, filled up to 16 bytes; 0.125 for ranges.
  EXPECT_EQ(codec->encoded_bytes(what), 16 + 8 * 2048 * 1.375 / 8);
  const Bytes source = make_source(what, normal_values(what.layout.elements(), 1));
  const Bytes bytes = encode(*codec, what, source);
  ASSERT_EQ(bytes.size(), codec->encoded_bytes(what));
  for (std::size_t p = 0; p < 16; ++p) {
    EXPECT_EQ(std::to_integer<int>(bytes[p]), p < 8 ? bits[p] : 0);
  }
}

TEST(GroupQuant, PlanesOfMixedBitsAreThoseOfUniformBits) {
  // Each plane's ranges and codes are what they are where all planes have its bits.
  constexpr std::int64_t kPlane = 777;
  const std::vector<std::uint8_t> bits = {3, 8, 1, 5, 2, 7, 4, 6, 2};
  const Description mixed = described(contiguous(9, {1, 1, kPlane}), ElementType::bfloat16, bits);
  const Description uniform = described(contiguous(9, {1, 1, kPlane}), ElementType::bfloat16);
  const Bytes source = make_source(mixed, normal_values(9 * kPlane, 2));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const Bytes bytes = encode(*make_codec(group_quant(2), engine), mixed, source, {7, 8, 9});
    const std::vector<float> decoded =
        values_of(mixed, decode(*make_codec(group_quant(2), engine), mixed, bytes));
    std::int64_t at = 16 + 9 * 4 * 4;
    for (std::int64_t p = 0; p < 9; ++p) {
      const auto codec = make_codec(group_quant(bits[p]), engine);
      const Bytes same = encode(*codec, uniform, source, {7, 8, 9});
      const std::int64_t size = (kPlane * bits[p] + 7) / 8;
      const std::int64_t from = 9 * 4 * 4 + p * size;
      EXPECT_TRUE(std::equal(bytes.begin() + at, bytes.begin() + at + size, same.begin() + from));
      EXPECT_TRUE(std::equal(bytes.begin() + 16 + p * 16, bytes.begin() + 32 + p * 16,
                             same.begin() + p * 16));
      at += size;
      const std::vector<float> expected = values_of(uniform, decode(*codec, uniform, same));
      for (std::int64_t i = p * kPlane; i < (p + 1) * kPlane; ++i) {
        ASSERT_EQ(decoded[i], expected[i]);
      }
    }
    EXPECT_EQ(at, static_cast<std::int64_t>(bytes.size()));
  }
}

TEST(GroupQuant, DecodingTakesBitsFromTheBytes) {
  const std::vector<std::uint8_t> bits = {3, 8, 1};
  const std::vector<std::uint8_t> others = {0, 99, 2};
  const PlaneLayout layout = contiguous(3, {1, 1, 300});
  const Description what = described(layout, ElementType::float32, bits);
  const Bytes source = make_source(what, normal_values(900, 3));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(group_quant(2), engine);
    Bytes bytes = encode(*codec, what, source);
    const Bytes decoded = decode(*codec, what, bytes);
    ASSERT_FALSE(decoded.empty());
    EXPECT_EQ(decode(*codec, described(layout, ElementType::float32, others), bytes), decoded);

    // 5 + 8 + 1 bits would need more bytes than there are; 0 and 9 aren't bits at all.
    for (const int damaged : {0, 5, 9, 255}) {
      bytes[0] = static_cast<std::byte>(damaged);
      EXPECT_TRUE(decode(*codec, what, bytes).empty()) << damaged;
    }
    bytes[0] = std::byte{2};
    EXPECT_FALSE(decode(*codec, what, bytes).empty());
  }
}

TEST(GroupQuant, PlaneBitsMustBeOneToEightForEachPlane) {
  const auto codec = make_codec(group_quant(2));
  const PlaneLayout layout = contiguous(3, {1, 1, 300});
  for (const std::vector<std::uint8_t>& bits :
       {std::vector<std::uint8_t>{1, 2}, {1, 2, 3, 4}, {1, 0, 2}, {1, 9, 2}}) {
    EXPECT_FALSE(codec->accepts(described(layout, ElementType::float32, bits)));
  }
  const std::vector<std::uint8_t> good = {1, 8, 2};
  EXPECT_TRUE(codec->accepts(described(layout, ElementType::float32, good)));
}

TEST(GroupQuant, ExpectationAndVarianceAreExactOverAllDraws) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 2.0F);
  for (int bits = 1; bits <= 8; ++bits) {
    for (int i = 0; i < 4; ++i) {
      const float x = i == 0 ? -1.0F : i == 1 ? 2.0F : uniform(random);
      const QuantizedGroup group = with_all_draws(x, bits);
      const std::vector<float> decoded = decode_group(group);
      const double step = float_of_bf16(group.range.step);
      const double u = (x - float_of_bf16(group.range.lo)) / step;
      const double p = u - std::floor(u);
      const Moments m = moments(std::span(decoded).subspan(2));
      EXPECT_NEAR(m.mean, x, step * 0x1p-16 + 1e-6) << bits;
      EXPECT_NEAR(m.variance, step * step * p * (1 - p),
                  0.02 * step * step * p * (1 - p) + 1e-4 * step * step)
          << bits;
    }
  }
}

TEST(GroupQuant, DitheredValuesAreUniformWithinHalfAStep) {
  std::vector<std::uint32_t> draws = all_draws();
  draws.insert(draws.begin(), {0, 0});
  for (int bits = 1; bits <= 8; ++bits) {
    for (const float x : {-1.0F, -0.3F, 0.0F, 0.77F, 2.0F}) {
      const QuantizedGroup group = with_all_draws(x, bits);
      const auto decoded = decode_group_dithered(group, draws);
      const double step = float_of_bf16(group.range.step);
      const Moments m = moments(std::span(decoded).subspan(2));
      EXPECT_NEAR(m.mean, x, step * 0x1p-15 + 1e-6) << bits << " bits of " << x;
      EXPECT_NEAR(m.variance / (step * step / 12), 1.0, 0.001) << bits << " bits of " << x;
      const auto [min, max] = std::minmax_element(decoded.begin() + 2, decoded.end());
      EXPECT_NEAR(*max - *min, step, 0.001 * step) << bits << " bits of " << x;
    }
  }
}

TEST(GroupQuant, DitheredBytesAreTheSameBehindTheKey) {
  const std::vector<std::uint8_t> bits = {3, 8, 1};
  const PlaneLayout layout = contiguous(3, {1, 1, 300});
  for (const std::span<const std::uint8_t> of_planes :
       {std::span<const std::uint8_t>{}, std::span<const std::uint8_t>(bits)}) {
    const Description what = described(layout, ElementType::float32, of_planes);
    const Bytes source = make_source(what, normal_values(900, 3));
    const RandomKey key{7, 8, std::uint64_t{9} << 32 | 10};
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const Bytes plain = encode(*make_codec(group_quant(2), engine), what, source, key);
      Bytes bytes = encode(*make_codec(dithered(2), engine), what, source, key);
      ASSERT_EQ(bytes.size(), plain.size() + 16);
      EXPECT_EQ(std::memcmp(bytes.data(), &key, sizeof key), 0);
      EXPECT_TRUE(std::equal(plain.begin(), plain.end(), bytes.begin() + 16));
      bytes.pop_back();
      EXPECT_TRUE(decode(*make_codec(dithered(2), engine), what, bytes).empty());
    }
  }
}

TEST(GroupQuant, VarianceIsASixthOfTheSquaredStepForUniformFractions) {
  for (const int bits : {2, 4}) {
    double sum = 0.0, step = 0.0;
    constexpr int kFractions = 16;
    for (int i = 0; i < kFractions; ++i) {
      const QuantizedGroup ends = with_all_draws(0.0F, bits);
      step = float_of_bf16(ends.range.step);
      const double x = float_of_bf16(ends.range.lo) + step * (1.0 + (i + 0.5) / kFractions);
      const std::vector<float> decoded = decode_group(with_all_draws(static_cast<float>(x), bits));
      sum += moments(std::span(decoded).subspan(2)).variance;
    }
    EXPECT_NEAR(sum / kFractions / (step * step / 6.0), 1.0, 0.02);
  }
}

/// Squared error of decoding `x`, over what R²/(6q²) an element predicts for groups of 256.
double error_ratio(const std::vector<float>& x, const CodecSpec& spec) {
  const Description what =
      described(contiguous(16, {1, 1, static_cast<std::int64_t>(x.size()) / 16}));
  const auto codec = make_codec(spec);
  const std::vector<float> y =
      values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x), {4, 5, 6})));
  double squares = 0.0, predicted = 0.0;
  for (std::size_t begin = 0; begin < x.size(); begin += 256) {
    const auto [min, max] = std::minmax_element(x.begin() + begin, x.begin() + begin + 256);
    const double q = (1 << spec.bits) - 1;
    predicted += 256 * (*max - *min) * (*max - *min) / (6.0 * q * q);
    for (std::size_t i = begin; i < begin + 256; ++i) squares += (y[i] - x[i]) * (y[i] - x[i]);
  }
  return squares / predicted;
}

TEST(GroupQuant, ErrorsOfGaussianDataAreAsThePaperPredicts) {
  std::vector<float> x = normal_values(1 << 18, 6);
  EXPECT_NEAR(error_ratio(x, group_quant(2)), 0.98, 0.05);
  EXPECT_NEAR(error_ratio(x, group_quant(4)), 1.0, 0.05);
  for (float& v : x) v = std::max(v - 0.3F, 0.0F);
  EXPECT_LT(error_ratio(x, group_quant(2)), 1.0);  // zeros are exact
}

TEST(GroupQuant, DitheringHalvesTheErrorOfGaussianData) {
  const std::vector<float> x = normal_values(1 << 18, 6);
  EXPECT_NEAR(error_ratio(x, dithered(2)), 0.5, 0.03);
  EXPECT_NEAR(error_ratio(x, dithered(4)), 0.5, 0.03);
}

/// Mean of errors in standard errors.
double standard_errors(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = double{y[i]} - x[i];
    sum += e;
    squares += e * e;
  }
  const auto n = static_cast<double>(x.size());
  return std::fabs(sum / n) / std::sqrt((squares / n - sum * sum / n / n) / n);
}

TEST(GroupQuant, DecodedTensorsAreUnbiased) {
  for (const ElementType type : kFloats) {
    const Description what = described(contiguous(16, {16, 28, 28}), type);
    const Bytes source = make_source(what, normal_values(what.layout.elements(), 5));
    const std::vector<float> x = values_of(what, source);
    for (const CodecSpec& spec :
         {group_quant(1), group_quant(2), group_quant(4), dithered(1), dithered(2), dithered(4)}) {
      const auto codec = make_codec(spec);
      const Bytes bytes = encode(*codec, what, source, {1, 2, 3});
      EXPECT_LT(standard_errors(x, values_of(what, decode(*codec, what, bytes))), 5.0) << spec.bits;
    }
  }
}

TEST(GroupQuant, ErrorsStayWithinOneStep) {
  for (const float scale : {1.0F, 1e-3F, 1e-30F, 1e20F}) {
    for (int bits = 1; bits <= 8; ++bits) {
      const Description what = described(contiguous(3, {2, 9, 37}));
      const std::vector<float> x = normal_values(what.layout.elements(), 11, scale);
      const auto codec = make_codec(group_quant(bits, 64));
      const Bytes bytes = encode(*codec, what, make_source(what, x));
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      const GroupQuantSections at({.bits = bits, .group = 64}, what.layout, {});
      ASSERT_EQ(at.groups, 11);
      for (std::int64_t i = 0; i < what.layout.elements(); ++i) {
        AffineRange range;
        const std::int64_t group = i / 666 * at.groups + i % 666 / 64;
        std::memcpy(&range, bytes.data() + at.ranges + 4 * group, 4);
        const float step = float_of_bf16(range.step);
        ASSERT_LE(std::fabs(y[i] - x[i]), step * 1.0001F + std::fabs(x[i]) * 1e-6F) << i;
        ASSERT_GE(y[i], float_of_bf16(range.lo));
      }
    }
  }
}

TEST(GroupQuant, ConstantGroupsOfBfloat16ValuesAreExact) {
  constexpr std::array<float, 6> kValues = {0.0F, -1.5F, 0x1.02p-3F, 96.0F, 0x1p-130F, -0x1p-133F};
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
    const Description what = described(contiguous(2, {1, 1, 6 * 256}), type);
    std::vector<float> x(what.layout.elements());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = kValues[i / 256 % 6];
    const Bytes source = make_source(what, x);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      for (const int bits : {1, 2, 8}) {
        const auto codec = make_codec(group_quant(bits), engine);
        EXPECT_EQ(decode(*codec, what, encode(*codec, what, source)), source);
      }
    }
  }
}

TEST(GroupQuant, ZerosOfBothSignsDecodeToZero) {
  const Description what = described(contiguous(1, {1, 1, 64}));
  std::vector<float> x(64, 0.0F);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -0.0F;
  const auto codec = make_codec(group_quant(2));
  for (const float y :
       values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))))) {
    EXPECT_EQ(float_bits(y), 0U);
  }
}

TEST(GroupQuant, EmptyTensorsAndSingleElements) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(group_quant(3), engine);
    const Description empty = described(contiguous(0, {1, 4, 4}));
    ASSERT_TRUE(codec->accepts(empty));
    EXPECT_EQ(codec->encoded_bytes(empty), 0U);
    EXPECT_TRUE(codec->encode(empty, nullptr, {}, {}, serial_for).representable);
    EXPECT_TRUE(codec->decode(empty, {}, nullptr, Reads::values, serial_for));
    const Description one = described(contiguous(1, {1, 1, 1}));
    const Bytes source = make_source(one, {-3.25F});
    EXPECT_EQ(decode(*codec, one, encode(*codec, one, source)), source);
  }
}

TEST(GroupQuant, GroupsThatCannotBeHeldArePoisonedAlone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  constexpr std::int64_t kPlane = 3 * 64 + 40;
  for (const ElementType type :
       {ElementType::float32, ElementType::bfloat16, ElementType::float16, ElementType::float64}) {
    const Description what = described(contiguous(2, {1, 1, kPlane}), type);
    for (const float bad : {nan, -nan, inf, -inf, 0x1p81F, -0x1p121F}) {
      if (type == ElementType::float16 && std::isfinite(bad)) continue;
      for (const std::int64_t where : {0, 63, 64, 130, 231, 232, 463}) {
        std::vector<float> x = normal_values(what.layout.elements(), 4);
        Bytes source = make_source(what, x);
        const std::uint64_t nan_bits = bits_of_nan(type);
        if (std::isnan(bad)) {
          std::memcpy(source.data() + where * element_size(type), &nan_bits, element_size(type));
        } else if (std::isinf(bad)) {
          const std::uint64_t bits =
              bits_of_infinity(type) | (bad < 0 ? bits_of_minus_zero(type) : 0);
          std::memcpy(source.data() + where * element_size(type), &bits, element_size(type));
        } else {
          set_element(what, source, where, bad);
        }
        Bytes expected;
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          const auto codec = make_codec(group_quant(2, 64), engine);
          Bytes bytes(codec->encoded_bytes(what), std::byte{0x5A});
          const Encoded encoded = codec->encode(what, source.data(), bytes, {}, two_threads);
          EXPECT_FALSE(encoded.representable);
          EXPECT_EQ(encoded.bytes, bytes.size());
          if (engine == Engine::reference) expected = bytes;
          ASSERT_EQ(bytes, expected);
          const Bytes decoded = decode(*codec, what, bytes);
          const auto group = [&](std::int64_t k) { return k / kPlane * 4 + k % kPlane / 64; };
          for (std::int64_t k = 0; k < 2 * kPlane; ++k) {
            const std::uint64_t bits = reference::load_bits(decoded.data(), k, element_size(type));
            if (group(k) == group(where)) {
              ASSERT_EQ(bits, nan_bits) << k;
            } else {
              ASSERT_TRUE(std::isfinite(value_of(type, bits))) << k;
            }
          }
        }
      }
    }
  }
}

/// Float64 elements, contiguous.
Bytes bytes_of(const std::vector<double>& x) {
  Bytes bytes(x.size() * sizeof(double));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

TEST(GroupQuant, Float64IsHeldAsTheNearestFloat32) {
  constexpr std::int64_t kPlane = 777;
  const Description wide = described(contiguous(5, {1, 1, kPlane}), ElementType::float64);
  const Description narrow = described(contiguous(5, {1, 1, kPlane}));
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  std::vector<double> x(wide.layout.elements());
  for (double& v : x) v = normal(random);
  // Halfway between two of float32: to the even one. And values that float32 has no normal numbers
  // for.
  for (std::size_t i = 0; i < x.size(); i += 50) x[i] = 1.0 + std::ldexp(double(i), -24);
  for (std::size_t i = 7; i < x.size(); i += 90) x[i] *= 0x1p-1030;
  std::vector<float> nearest(x.begin(), x.end());
  for (const CodecSpec& spec : {group_quant(1), group_quant(3), group_quant(8), dithered(2)}) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec, engine);
      const Bytes bytes = encode(*codec, wide, bytes_of(x), {1, 2, 3});
      EXPECT_EQ(bytes, encode(*codec, narrow, make_source(narrow, nearest), {1, 2, 3}));
      const std::vector<float> y = values_of(narrow, decode(*codec, narrow, bytes));
      EXPECT_EQ(decode(*codec, wide, bytes), bytes_of({y.begin(), y.end()}));
    }
  }
}

TEST(GroupQuant, Float64BeyondFloat32IsNotRepresentable) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Description what = described(contiguous(1, {1, 1, 300}), ElementType::float64);
  struct Row {
    double x;
    bool holds;
  };
  for (const Row& row : {Row{1e-320, true},
                         {0x1p80, true},
                         {std::nextafter(0x1p80, kInf), true},
                         {0x1.00001p80, false},
                         {-1e39, false},
                         {1e300, false},
                         {-kInf, false},
                         {std::numeric_limits<double>::quiet_NaN(), false}}) {
    std::vector<double> x(300, 0.5);
    x[130] = row.x;
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(group_quant(2, 64), engine);
      const Encoding encoding = encode_any(*codec, what, bytes_of(x));
      EXPECT_EQ(encoding.representable, row.holds) << row.x;
      const Bytes decoded = decode(*codec, what, encoding.bytes);
      for (std::size_t i = 0; i < 300; ++i) {
        const auto y = load<double>(decoded, 8 * i);
        const bool in_its_group = i >= 128 && i < 192;
        ASSERT_EQ(std::isfinite(y), row.holds || !in_its_group) << row.x << " " << i;
      }
    }
  }
}

TEST(GroupQuant, DecodedValuesAreFinite) {
  const Description half = described(contiguous(1, {1, 16, 16}), ElementType::float16);
  std::vector<float> x = normal_values(256, 1);
  for (float& v : x) v = v > 0.3F ? 65504.0F : -65504.0F;
  const Description what = described(contiguous(1, {1, 16, 16}));
  std::vector<float> large = x;
  for (float& v : large) v = v > 0.0F ? 0x1p80F : -0x1p80F;
  for (const int bits : {2, 6}) {
    const auto codec = make_codec(group_quant(bits));
    for (const float y :
         values_of(half, decode(*codec, half, encode(*codec, half, make_source(half, x))))) {
      EXPECT_TRUE(std::isfinite(y));
    }
    for (const float y :
         values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, large))))) {
      EXPECT_TRUE(std::isfinite(y));
    }
  }
}

TEST(GroupQuant, MemoryFormatDoesNotChangeTheBytes) {
  for (const std::array<std::int64_t, 3> extent :
       {std::array<std::int64_t, 3>{32, 9, 7}, {3, 40, 41}, {1, 20, 30}, {70, 1, 1}}) {
    const Description rows = described(contiguous(3, extent));
    const Description last = described(samples_last(3, extent));
    const std::vector<float> x = normal_values(rows.layout.elements(), 2);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(group_quant(3, 64), engine);
      const Bytes bytes = encode(*codec, rows, make_source(rows, x));
      EXPECT_EQ(encode(*codec, last, make_source(last, x)), bytes);
      EXPECT_EQ(values_of(rows, decode(*codec, rows, bytes)),
                values_of(last, decode(*codec, last, bytes)));
    }
  }
}

std::int64_t calls_of_body;

void count_calls(std::int64_t n, std::int64_t grain, ParallelForBody body, void* argument) {
  for (std::int64_t begin = 0; begin < n; begin += grain, ++calls_of_body) {
    body(argument, begin, std::min(n, begin + grain));
  }
}

TEST(GroupQuant, ASingleSampleIsSplitOverThreads) {
  for (const PlaneLayout& layout : {contiguous(1, {512, 56, 56}), samples_last(1, {512, 56, 56})}) {
    const Description what = described(layout);
    const auto codec = make_codec(group_quant(2));
    calls_of_body = 0;
    const Bytes source = make_source(what, std::vector<float>(what.layout.elements(), 1.0F));
    const Bytes bytes = encode(*codec, what, source, {}, count_calls);
    EXPECT_GE(calls_of_body, 4);
    calls_of_body = 0;
    EXPECT_EQ(decode(*codec, what, bytes, Reads::values, count_calls), source);
    EXPECT_GE(calls_of_body, 4);
  }
}

TEST(GroupQuant, DrawsFollowSeedEntryAndStep) {
  const Description what = described(contiguous(4, {1, 16, 16}));
  const Bytes source = make_source(what, normal_values(1024, 2));
  const auto codec = make_codec(group_quant(2));
  const Bytes bytes = encode(*codec, what, source, {1, 2, 3});
  EXPECT_EQ(encode(*codec, what, source, {1, 2, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {2, 2, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {1, 3, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {1, 2, 4}), bytes);
}

TEST(GroupQuant, SignsAreNotServed) {
  const Description what = described(contiguous(2, {1, 4, 4}));
  const auto codec = make_codec(group_quant(2));
  const Bytes bytes = encode(*codec, what, make_source(what, normal_values(32, 1)));
  EXPECT_TRUE(decode(*codec, what, bytes, Reads::sign).empty());
  EXPECT_FALSE(codec->accepts(described(contiguous(2, {1, 4, 4}), ElementType::int64)));
}

TEST(GroupQuant, ParametersOutOfRangeMakeNoCodec) {
  for (const CodecSpec& spec : {group_quant(0), group_quant(9), group_quant(2, 0),
                                group_quant(2, -8), group_quant(2, 4), group_quant(2, 100)}) {
    EXPECT_EQ(make_codec(spec), nullptr);
    EXPECT_EQ(make_codec(spec, Engine::reference), nullptr);
  }
}

/// Encoded bytes, representable or not, with what was poisoned in them.
Bytes encode_anything(const Codec& codec, const Description& what, const Bytes& source,
                      RandomKey key, ParallelFor parallel) {
  Bytes out(codec.encoded_bytes(what), std::byte{0x5A});
  const Encoded encoded = codec.encode(what, source.data(), out, key, parallel);
  out.resize(encoded.bytes);
  out.push_back(static_cast<std::byte>(encoded.representable));
  return out;
}

TEST(GroupQuant, EnginesWriteTheSameBytes) {
  constexpr std::array kGroups = {8, 16, 24, 64, 256, 256, 256, 1000, 3000};
  for_each_target([&](const std::string& target) {
    Random random(17);
    for (int round = 0; round < 160 && !testing::Test::HasFailure(); ++round) {
      CodecSpec spec = group_quant(static_cast<int>(draw(random, 1, 8)),
                                   kGroups[draw(random, 0, kGroups.size() - 1)]);
      spec.subtractive_dither = round % 3 == 0;
      if (round % 7 < 3) spec.floor = static_cast<float>(draw(random, 0, 16)) / 8.0F - 1.7F;
      spec.roots = spec.subtractive_dither && round % 7 >= 5;
      Description what{.type = random_float(random, *codec_traits(spec.name)),
                       .layout = random_layout(random)};
      if (round % 4 == 0) {
        what.layout = samples_last(draw(random, 1, 3),
                                   {draw(random, 1, 40), draw(random, 1, 20), draw(random, 1, 20)});
      }
      if (round % 8 == 1)
        what.layout = contiguous(draw(random, 1, 2), {1, 1, draw(random, 1, 9000)});
      std::vector<std::uint8_t> bits(what.layout.planes());
      if (draw(random, 0, 1) != 0) {
        for (std::uint8_t& b : bits) b = static_cast<std::uint8_t>(draw(random, 1, 8));
        what.plane_bits = bits;
      }
      Bytes source = make_source(what, random_values(random, what.layout, false));
      source = with_low_bits(random, what, std::move(source));
      if (round % 5 == 0) put_not_finite(random, what, source);
      const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
      SCOPED_TRACE(target + " " + describe(what, spec) + " G " + std::to_string(spec.group));
      const auto reference = make_codec(spec, Engine::reference);
      const auto cpu = make_codec(spec, Engine::cpu);
      Bytes expected = encode_anything(*reference, what, source, key, serial_for);
      for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
        ASSERT_EQ(encode_anything(*cpu, what, source, key, parallel), expected);
      }
      expected.pop_back();
      const Bytes decoded = decode(*reference, what, expected);
      ASSERT_FALSE(decoded.empty());
      for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
        ASSERT_EQ(decode(*cpu, what, expected, Reads::values, parallel), decoded);
      }
    }
  });
}

TEST(GroupQuant, LargeTensorsAreWrittenPastTheCaches) {
  // More than what decoding keeps in caches, at addresses that vectors can and cannot stream to.
  const Description what = described(contiguous(1, {1, 1, (17 << 18) + 5}));
  std::vector<float> x(what.layout.elements());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 4);
  const auto codec = make_codec(group_quant(2));
  const Bytes bytes = encode(*codec, what, make_source(what, x));
  EXPECT_TRUE(decodes_at_any_address(*codec, what, bytes, x));
}

}  // namespace
}  // namespace cinch::codecs::test
