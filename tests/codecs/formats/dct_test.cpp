// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/dct.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

CodecSpec dct(float error_bound, bool zero_value = true) {
  return {.name = "dct", .error_bound = error_bound, .zero_value = zero_value};
}

CodecSpec fixed_point(float error_bound) {
  return {.name = "fixed_point", .error_bound = error_bound};
}

Description describe(PlaneLayout layout, ElementType type = ElementType::float32) {
  return {.type = type, .layout = layout};
}

/// Planes of a few waves, as activations of early layers are, plus noise.
std::vector<float> smooth_values(const PlaneLayout& layout, float noise, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(0.02F, 0.2F);
  std::vector<float> values(layout.elements());
  const auto& [depth, height, width] = layout.extent;
  std::size_t k = 0;
  for (std::int64_t p = 0; p < layout.planes(); ++p) {
    const float across = uniform(random), down = uniform(random), phase = normal(random);
    for (std::int64_t i = 0; i < depth * height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        const float wave = std::sin(across * static_cast<float>(j) + phase) +
                           std::cos(down * static_cast<float>(i) - phase);
        values[k++] = wave + noise * normal(random);
      }
    }
  }
  return values;
}

double bits_per_element(const CodecSpec& spec, const Description& what, const Bytes& source) {
  const Bytes bytes = encode(*make_codec(spec), what, source);
  return 8.0 * double(bytes.size()) / double(what.layout.elements());
}

/// The form bytes of all blocks.
std::vector<std::uint8_t> forms_of(const Description& what, const Bytes& bytes) {
  const DctGeometry geometry(what.layout);
  std::vector<std::uint8_t> forms;
  std::int64_t at = kDctHeaderBytes + 2 * geometry.chunks();
  for (std::int64_t chunk = 0; chunk < geometry.chunks(); ++chunk) {
    const std::int64_t count = std::min(kDctChunk, geometry.blocks() - chunk * kDctChunk);
    for (std::int64_t b = 0; b < count; ++b) {
      forms.push_back(std::to_integer<std::uint8_t>(bytes[at + b]));
    }
    std::uint16_t size;
    std::memcpy(&size, &bytes[kDctHeaderBytes + 2 * chunk], 2);
    at += size;
  }
  return forms;
}

TEST(Dct, TransformIsOrthonormal) {
  for (int k = 0; k < 8; ++k) {
    std::array<float, 8> wave;
    for (int i = 0; i < 8; ++i) {
      wave[i] = static_cast<float>(std::cos((2 * i + 1) * k * std::acos(-1.0) / 16.0) *
                                   (k == 0 ? std::sqrt(0.125) : 0.5));
    }
    std::array<float, 8> coefficients = wave;
    dct8(coefficients.data(), 1);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(coefficients[i], i == k ? 1.0F : 0.0F, 1e-6F);
    dct8_inverse(coefficients.data(), 1);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(coefficients[i], wave[i], 1e-6F);
  }
}

TEST(Dct, ZigzagIsOneToOne) {
  for (int q = -32767; q <= 32767; ++q) {
    ASSERT_EQ(dct_unzigzag(dct_zigzag(q)), q);
    ASSERT_LE(dct_zigzag(q), 65534U);
  }
  EXPECT_EQ(dct_zigzag(0), 0U);
  EXPECT_EQ(dct_zigzag(-1), 1U);
  EXPECT_EQ(dct_zigzag(1), 2U);
}

TEST(Dct, KnownBlocks) {
  const Description what = describe(contiguous(4, {1, 8, 8}));
  std::vector<float> values(4 * 64, 0.0F);
  for (int i = 0; i < 64; ++i) {
    values[64 + i] = 3.0F;                                    // a constant
    values[128 + i] = i % 8 < 4 ? 1.0F : -1.0F;               // only along the width
    values[192 + i] = i == 5 ? kNan : static_cast<float>(i);  // raw
  }
  const Bytes source = make_source(what, values);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const Bytes bytes = encode(*make_codec(dct(0.5F), engine), what, source);
    // DC 3 * 8 / 0.75; of the third block, coefficients 1, 3, 5 and 7 along the width, of which
    // those that are not rounded away are in column 0 of a row each: 7.25, -2.55, 1.70, -1.44 in
    // steps of 0.75 make 10, -3, 2, -2, which are z - 1 = 19, 4, 3, 2 in five bits.
    const std::vector<int> expected = {0x80, 0x00, 0x05, 0x1F,  // forms
                                       32,   0,    0,    0,     // DC
                                       0xAA,                    // rows 1, 3, 5, 7
                                       1,    1,    1,    1};
    ASSERT_EQ(bytes.size(), 32U + 2 + expected.size() + 3 + 256);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(std::to_integer<int>(bytes[34 + i]), expected[i]) << i;
    }
    const unsigned codes = std::to_integer<unsigned>(bytes[47]) |
                           std::to_integer<unsigned>(bytes[48]) << 8 |
                           std::to_integer<unsigned>(bytes[49]) << 16;
    EXPECT_EQ(codes, 19U | 4U << 5 | 3U << 10 | 2U << 15);
    const std::vector<float> decoded =
        values_of(what, decode(*make_codec(dct(0.5F), engine), what, bytes));
    for (int i = 0; i < 64; ++i) EXPECT_EQ(float_bits(decoded[i]), 0U);
    for (int i = 64; i < 192; ++i) EXPECT_NEAR(decoded[i], values[i], 0.5F);
    for (int i = 198; i < 256; ++i) EXPECT_EQ(decoded[i], values[i]);
    EXPECT_TRUE(std::isnan(decoded[197]));
  }
}

TEST(Dct, EveryElementIsWithinTheBoundInEveryForm) {
  std::array<int, kDctLevels> levels = {};
  int sparse = 0, dense = 0, dc = 0, zero = 0, raw = 0;
  for (const ElementType type : kFloats) {
    for (const PlaneLayout& layout :
         {contiguous(12, {1, 24, 24}), contiguous(10, {1, 7, 7}), contiguous(9, {1, 13, 19}),
          contiguous(3, {5, 9, 9}), contiguous(7, {1, 1, 200}), channels_last(6, 70, {1, 1, 1}),
          channels_last(2, 5, {1, 14, 14})}) {
      const Description what = describe(layout, type);
      for (const float noise : {0.0F, 0.01F, 0.3F}) {
        for (const float bound : {3.0F, 0.2F, 0.02F, 0.001F, 1e-5F}) {
          std::vector<float> values = smooth_values(layout, noise, 5);
          for (std::size_t k = 0; k < values.size(); ++k) {
            if (k / 100 % 3 == 0) values[k] = std::max(values[k], 0.0F);
          }
          const Bytes source = make_source(what, values);
          values = values_of(what, source);
          const auto codec = make_codec(dct(bound));
          const Bytes bytes = encode(*codec, what, source);
          for (const std::uint8_t form : forms_of(what, bytes)) {
            ASSERT_TRUE(DctForm::is_valid(form));
            if (form == kDctZeroForm) {
              ++zero;
            } else if (form == kDctRawForm) {
              ++raw;
            } else {
              ++levels[DctForm::level(form)];
              ++(DctForm::width(form) == 0 ? dc : DctForm::is_dense(form) ? dense : sparse);
            }
          }
          const std::vector<float> decoded = values_of(what, decode(*codec, what, bytes));
          for (std::size_t k = 0; k < values.size(); ++k) {
            ASSERT_LT(std::fabs(double(values[k]) - double(decoded[k])), double(bound))
                << int(type) << " " << noise << " " << values[k];
          }
        }
      }
    }
  }
  for (const int level : levels) EXPECT_GT(level, 10);
  for (const int form : {sparse, dense, dc, zero, raw}) EXPECT_GT(form, 100);
}

TEST(Dct, NeedsFewerBitsThanFixedPointOnSmoothData) {
  const Description what = describe(contiguous(32, {1, 56, 56}));
  for (const float bound : {0.1F, 0.03F, 0.01F}) {
    const Bytes smooth = make_source(what, smooth_values(what.layout, 0.0F, 6));
    const double of_dct = bits_per_element(dct(bound), what, smooth);
    EXPECT_LT(of_dct, 3.0) << bound;
    EXPECT_LT(2.0 * of_dct, bits_per_element(fixed_point(bound), what, smooth)) << bound;
    // Noise well below the bound costs little.
    const Bytes noisy = make_source(what, smooth_values(what.layout, bound / 3.0F, 6));
    EXPECT_LT(bits_per_element(dct(bound), what, noisy),
              bits_per_element(fixed_point(bound), what, noisy))
        << bound;
  }
}

// Where neighbours have nothing in common there is nothing to gain, and where zeros are scattered
// there is something to lose.
TEST(Dct, NeedsMoreBitsThanFixedPointOnScatteredZeros) {
  const Description what = describe(contiguous(32, {1, 56, 56}));
  std::vector<float> values = smooth_values(what.layout, 3.0F, 7);
  for (float& x : values) x = std::max(x, 0.0F);
  const Bytes source = make_source(what, values);
  EXPECT_GT(bits_per_element(dct(0.05F), what, source),
            bits_per_element(fixed_point(0.05F), what, source));
}

TEST(Dct, ZeroValueOffMeansDenseForms) {
  const Description what = describe(contiguous(8, {1, 16, 16}));
  const Bytes source = make_source(what, smooth_values(what.layout, 0.01F, 8));
  const Bytes with = encode(*make_codec(dct(0.05F)), what, source);
  const Bytes without = encode(*make_codec(dct(0.05F, false)), what, source);
  EXPECT_LT(with.size(), without.size());
  for (const std::uint8_t form : forms_of(what, without)) {
    EXPECT_TRUE(DctForm::is_dense(form) || DctForm::width(form) == 0);
  }
  EXPECT_EQ(decode(*make_codec(dct(0.05F)), what, with),
            decode(*make_codec(dct(0.05F, false)), what, without));
}

TEST(Dct, BlocksThatCodesCannotHoldAreRaw) {
  const Description what = describe(contiguous(5, {1, 8, 8}));
  std::vector<float> values = smooth_values(what.layout, 0.0F, 9);
  const std::array<float, 4> strange = {kNan, kInfinity, -kInfinity, 0x1p81F};
  for (int b = 0; b < 4; ++b) values[64 * b + 9] = strange[b];
  Bytes source = make_source(what, values);
  reference::store_bits(source.data(), 9, 4, 0xFFC01234U);  // a NaN with a payload
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(dct(0.05F), engine);
    const Bytes bytes = encode(*codec, what, source);
    const std::vector<std::uint8_t> forms = forms_of(what, bytes);
    const Bytes decoded = decode(*codec, what, bytes);
    for (int b = 0; b < 5; ++b) EXPECT_EQ(forms[b] == kDctRawForm, b < 4) << b;
    EXPECT_TRUE(std::equal(source.begin(), source.begin() + 4 * 64 * 4, decoded.begin()));
  }
}

TEST(Dct, BoundsOfAllSizes) {
  const Description what = describe(contiguous(2, {1, 8, 8}));
  const Bytes source = make_source(what, smooth_values(what.layout, 0.1F, 10));
  for (const float bound : {1e-45F, 1e-38F, 1e-10F, 1e10F, 3.4e38F}) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(dct(bound), engine);
      const Bytes bytes = encode(*codec, what, source);
      for (const std::uint8_t form : forms_of(what, bytes)) {
        EXPECT_EQ(form, bound < 1.0F ? kDctRawForm : kDctZeroForm) << bound;
      }
    }
  }
  for (const float bound : {0.0F, -0.5F, kInfinity, kNan}) {
    EXPECT_EQ(make_codec(dct(bound)), nullptr) << bound;
  }
}

TEST(Dct, MemoryFormatDoesNotChangeTheBytes) {
  PlaneLayout planar = contiguous(3 * 37, {1, 11, 18});
  const std::vector<float> values = smooth_values(planar, 0.05F, 11);
  for (const ElementType type : kFloats) {
    const Description one = describe(planar, type);
    const Description other = describe(channels_last(3, 37, {1, 11, 18}), type);
    EXPECT_EQ(encode(*make_codec(dct(0.05F)), one, make_source(one, values)),
              encode(*make_codec(dct(0.05F)), other, make_source(other, values)));
  }
}

TEST(Dct, NothingAtAll) {
  const Description what = describe(contiguous(0, {1, 8, 8}));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(dct(0.1F), engine);
    const Bytes bytes = encode(*codec, what, Bytes());
    EXPECT_EQ(bytes.size(), 32U);
    EXPECT_TRUE(codec->decode(what, bytes, nullptr, Reads::values, serial_for));
  }
}

TEST(Dct, SignsAreRefused) {
  const Description what = describe(contiguous(2, {1, 8, 8}));
  const Bytes source = make_source(what, smooth_values(what.layout, 0.1F, 12));
  const Bytes bytes = encode(*make_codec(dct(0.1F)), what, source);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    EXPECT_TRUE(decode(*make_codec(dct(0.1F), engine), what, bytes, Reads::sign).empty());
  }
}

TEST(Dct, DamagedBytesAreRefusedOrDecoded) {
  std::mt19937 random(13);
  const Description what = describe(contiguous(5, {1, 30, 21}));
  std::vector<float> values = smooth_values(what.layout, 0.1F, 13);
  values[100] = kNan;
  const Bytes good = encode(*make_codec(dct(0.05F)), what, make_source(what, values));
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    Bytes damaged = good;
    const std::size_t end = round % 2 == 0 ? 90 : good.size();
    for (int i = 0; i < 2; ++i) damaged[random() % end] = static_cast<std::byte>(random());
    if (round % 5 == 0) damaged.resize(random() % good.size());
    damaged.shrink_to_fit();
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      refused += decode(*make_codec(dct(0.05F), engine), what, damaged).empty();
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Dct, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(14);
    for (int round = 0; round < 90 && !testing::Test::HasFailure(); ++round) {
      Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      if (round % 8 == 0) {
        what.layout = channels_last(draw(random, 1, 90), draw(random, 1, 90), {1, 1, 1});
      }
      const bool smooth = draw(random, 0, 1) != 0;
      std::vector<float> values = smooth ? smooth_values(what.layout, 0.05F, random())
                                         : random_values(random, what.layout, false);
      if (draw(random, 0, 9) == 0) values[draw(random, 0, values.size() - 1)] = kNan;
      CodecSpec spec = dct(std::exp2(-static_cast<float>(draw(random, -2, 14))));
      spec.zero_value = draw(random, 0, 3) != 0;
      SCOPED_TRACE(target + " " + test::describe(what, spec));
      expect_same_engines(spec, what, make_source(what, values), {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
