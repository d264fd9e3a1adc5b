// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/blpa.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/element_bits.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

CodecSpec blpa(int bits, bool with_sign = false) {
  return {.name = "blpa", .bits = bits, .with_sign = with_sign};
}

/// Samples of `channels` channels, contiguous.
PlaneLayout samples(std::int64_t outer, std::int64_t channels, std::array<std::int64_t, 3> extent) {
  PlaneLayout layout = contiguous(outer, extent);
  layout.inner = channels;
  layout.inner_stride = layout.plane_size();
  layout.outer_stride = layout.inner_stride * channels;
  return layout;
}

Description described(PlaneLayout layout, ElementType type = ElementType::float32,
                      const float* center = nullptr, const float* scale = nullptr) {
  return {.type = type, .layout = layout, .channel_center = center, .channel_scale = scale};
}

std::vector<float> normal_values(std::int64_t n, unsigned seed, float mean = 0.0F,
                                 float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, scale);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

BlpaGrid grid_at(const Bytes& bytes, std::int64_t channel) {
  BlpaGrid grid;
  std::memcpy(&grid, bytes.data() + 4 * channel, sizeof grid);
  return grid;
}

// Eqs. 9 and 10 worked by hand, but that 0 belongs to the bin below it.
TEST(Blpa, WorkedExample) {
  const float center = 0.5F;
  const float scale = 1.0F;
  const std::vector<float> x = {-2.9F, -0.6F, -0.1F, 0.0F, 0.1F, 0.5F, 3.3F, 4.0F};
  const Description what =
      described(contiguous(1, {1, 1, 8}), ElementType::float32, &center, &scale);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(blpa(4), engine);
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    // d = .375, z = 1, codes 0 5 6 6 7 8 15 15.
    constexpr std::array<int, 8> kExpected = {0xC0, 0x3E, 0x01, 0x00, 0x50, 0x66, 0x87, 0xFF};
    ASSERT_EQ(bytes.size(), kExpected.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(std::to_integer<int>(bytes[i]), kExpected[i]) << i;
    }
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    EXPECT_THAT(y, testing::ElementsAre(-2.4375F, -0.5625F, -0.1875F, -0.1875F, 0.1875F, 0.5625F,
                                        3.1875F, 3.1875F));
  }
}

TEST(Blpa, GridIsRoundedAsDefined) {
  // 6 * 1 / 16 is a bfloat16; 6 * 1.01 / 16 = .37875 lies between .376953125 and .37890625.
  EXPECT_EQ(blpa_grid(0.5F, 1.0F, 4), (BlpaGrid{0x3EC0, 1}));
  EXPECT_EQ(blpa_grid(0.5F, 1.01F, 4), (BlpaGrid{0x3EC1, 1}));
  EXPECT_EQ(blpa_grid(-0.5F, -1.0F, 4), (BlpaGrid{0x3EC0, -2}));
  // A scale of 0 counts as 1e-8.
  EXPECT_EQ(blpa_grid(0.0F, 0.0F, 4), blpa_grid(0.0F, 1e-8F, 4));
  EXPECT_GT(float_of_bf16(blpa_grid(0.0F, 0.0F, 8).step), 0.0F);
  for (const float center : {1e6F, -1e6F, 0x1p80F, -0x1p80F, 32766.0F, 32767.0F, 3e-9F}) {
    for (const float scale : {0.0F, 1e-3F, 1.0F}) {
      for (const int bits : {1, 4, 8}) {
        const BlpaGrid grid = blpa_grid(center, scale, bits);
        const float d = float_of_bf16(grid.step);
        EXPECT_LE(grid.bin * d, center);
        EXPECT_GE((grid.bin + 1) * d, center * (1 - 1e-6F));
        // No wider than it must be: the next smaller bfloat16 would not do.
        const float smaller = float_of_bf16(static_cast<std::uint16_t>(grid.step - 1));
        EXPECT_TRUE(d <= 6 * std::max(scale, 1e-8F) / static_cast<float>(1 << bits) ||
                    std::fabs(center) / smaller > 32766.0F);
      }
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0x1p81F}) {
    EXPECT_EQ(blpa_grid(bad, 1.0F, 4), poisoned_grid());
    EXPECT_EQ(blpa_grid(1.0F, bad, 4), poisoned_grid());
  }
}

TEST(Blpa, BitsPerElement) {
  struct Row {
    PlaneLayout layout;
    int bits;
    double expected;
  };
  for (const Row& row : {Row{samples(32, 64, {1, 56, 56}), 4, 4 + 32.0 / (32 * 56 * 56)},
                         Row{samples(8, 512, {1, 7, 7}), 4, 4 + 32.0 / (8 * 49)},
                         Row{samples(8, 512, {1, 7, 7}), 8, 8 + 32.0 / (8 * 49)},
                         Row{channels_last(4, 16, {1, 8, 8}), 2, 2 + 32.0 / 256}}) {
    const Description what = described(row.layout);
    const auto codec = make_codec(blpa(row.bits));
    const auto elements = static_cast<double>(what.layout.elements());
    const Bytes bytes =
        encode(*codec, what, make_source(what, normal_values(what.layout.elements(), 1)));
    EXPECT_EQ(bytes.size(), codec->encoded_bytes(what));
    EXPECT_DOUBLE_EQ(8.0 * static_cast<double>(bytes.size()) / elements, row.expected);
  }
}

TEST(Blpa, ErrorsOfNormalDataAreThePapers) {
  const float center = 0.0F;
  const float scale = 1.0F;
  // All of the distribution rather than a sample, in which the few that are clipped weigh much.
  std::vector<float> x(1 << 20);
  std::vector<double> weight(x.size());
  double weights = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 12.0F * (static_cast<float>(i) / static_cast<float>(x.size()) - 0.5F);
    weight[i] = std::exp(-0.5 * x[i] * x[i]);
    weights += weight[i];
  }
  const Description what = described(contiguous(1, {1, 1, static_cast<std::int64_t>(x.size())}),
                                     ElementType::float32, &center, &scale);
  struct Row {
    int bits;
    double rms;
    double tolerance;
    double most;
  };
  for (const Row& row : {Row{4, 0.1117, 0.001, 0.1875}, Row{8, 0.0216, 0.0003, 0.01172}}) {
    const auto codec = make_codec(blpa(row.bits));
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    const float d = float_of_bf16(grid_at(bytes, 0).step);
    const float low = -d * static_cast<float>(1 << (row.bits - 1));
    double squares = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = double{y[i]} - x[i];
      squares += weight[i] * error * error;
      if (x[i] >= low && x[i] <= -low) {
        ASSERT_LE(std::fabs(error), row.most) << x[i];
      }
    }
    EXPECT_NEAR(std::sqrt(squares / weights), row.rms, row.tolerance);
  }
}

TEST(Blpa, UnclippedErrorsStayWithinHalfABin) {
  std::mt19937 random(8);
  for (const ElementType type : kFloats) {
    for (int bits = 1; bits <= 8; ++bits) {
      for (int round = 0; round < 8; ++round) {
        const float center = std::normal_distribution<float>(0.0F, 3.0F)(random);
        const float scale = std::uniform_real_distribution<float>(-2.0F, 2.0F)(random);
        const Description what = described(contiguous(1, {1, 1, 500}), type, &center, &scale);
        const Bytes source =
            make_source(what, normal_values(500, 9 + round, center, std::fabs(scale)));
        const std::vector<float> x = values_of(what, source);
        const auto codec = make_codec(blpa(bits));
        const Bytes bytes = encode(*codec, what, source);
        const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
        const BlpaGrid grid = grid_at(bytes, 0);
        const float d = float_of_bf16(grid.step);
        ASSERT_LE(d, 6 * std::fabs(scale) / static_cast<float>(1 << bits));
        const float low = d * static_cast<float>(grid.bin - (1 << (bits - 1)));
        const float high = d * static_cast<float>(grid.bin + (1 << (bits - 1)));
        // Clipping at the center +- 3 scales, or less by under a bin and bfloat16's rounding.
        EXPECT_NEAR(low, center - 3 * std::fabs(scale), 1.01F * d + 0.03F * std::fabs(scale));
        const float rounding = type == ElementType::float32    ? 1e-6F
                               : type == ElementType::bfloat16 ? 0x1p-8F
                                                               : 0x1p-10F;
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (x[i] < low || x[i] > high) continue;
          ASSERT_LE(std::fabs(y[i] - x[i]), d / 2 * 1.00001F + rounding * std::fabs(y[i]));
        }
      }
    }
  }
}

TEST(Blpa, StatisticsAreMeanAndDeviationOfTheChannel) {
  for (const PlaneLayout& layout :
       {samples(6, 3, {1, 10, 10}), samples(2, 3, {1, 70, 70}), samples(500, 3, {1, 1, 1}),
        channels_last(6, 3, {1, 10, 10}), channels_last(2, 3, {1, 70, 70}),
        channels_last(3, 3, {2, 5, 5})}) {
    const Description what = described(layout);
    std::vector<float> x = normal_values(layout.elements(), 4);
    const std::array<float, 3> scale = {0.5F, 2.0F, 1e-3F};
    const std::array<float, 3> center = {0.25F, -7.0F, 0.0F};
    std::array<double, 3> sum = {}, squares = {};
    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      const std::int64_t c = k / layout.plane_size() % 3;
      x[k] = center[c] + scale[c] * x[k];
      sum[c] += x[k];
      squares[c] += double{x[k]} * x[k];
    }
    const Bytes source = make_source(what, x);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const Bytes bytes = encode(*make_codec(blpa(4), engine), what, source);
      for (std::int64_t c = 0; c < 3; ++c) {
        const double n = static_cast<double>(layout.elements()) / 3.0;
        const double mean = sum[c] / n;
        const double deviation = std::sqrt(squares[c] / n - mean * mean);
        const BlpaGrid grid = grid_at(bytes, c);
        const double d = float_of_bf16(grid.step);
        EXPECT_LE(d, 6 * deviation / 16 * (1 + 1e-6));
        EXPECT_GE(d, 6 * deviation / 16 * (1 - 0x1p-7));
        EXPECT_NEAR((grid.bin + 0.5) * d, mean, 0.5 * d * (1 + 1e-6));
      }
    }
  }
}

TEST(Blpa, ChunksCoverEveryElementOnce) {
  for (const std::int64_t plane : {1, 49, 63, 3136, 4096, 4097, 12544, 100000}) {
    for (const std::int64_t outer : {1, 2, 5, 84}) {
      const BlpaChunks chunks(samples(outer, 3, {1, 1, plane}));
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < chunks.count; ++i) {
        ASSERT_EQ(chunks.begin(i), at);
        ASSERT_GT(chunks.size(i), 0);
        ASSERT_LE(chunks.size(i), BlpaChunks::kElements);
        at += chunks.size(i);
      }
      ASSERT_EQ(at, outer * plane);
    }
  }
}

/// Non-negative data with zeros of both signs.
std::vector<float> rectified(std::int64_t n, unsigned seed, float mean) {
  std::vector<float> x = normal_values(n, seed, mean);
  for (float& v : x) v = std::max(v, -0.0F);
  x[3] = 0x1p-149F;  // what underflows when divided is above 0 too
  x[n / 2] = 0x1p-126F;
  return x;
}

TEST(Blpa, CodesTellSignsWhereTheGridKeepsThem) {
  // Scales above 2^K / 6 make bins wider than 1.
  for (const float scale : {1.0F, -1.0F, 0.3F, 40.0F}) {
    for (const float offset : {0.0F, 1.0F, -2.0F, 2.6F}) {
      const float center = offset * std::fabs(scale);
      for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
        const Description what = described(channels_last(2, 1, {1, 9, 111}), type, &center, &scale);
        const Bytes source = make_source(what, rectified(what.layout.elements(), 21, center));
        const std::vector<float> x = values_of(what, source);
        ASSERT_TRUE(keeps_signs(blpa_grid(center, scale, 4), 4));
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          const auto codec = make_codec(blpa(4, true), engine);
          const Bytes bytes = encode(*codec, what, source);
          // No sign is stored: it costs as much as without.
          EXPECT_EQ(bytes.size(), make_codec(blpa(4), engine)->encoded_bytes(what));
          EXPECT_LT(bytes.size(), codec->encoded_bytes(what));
          const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
          const std::vector<float> sign = values_of(what, decode(*codec, what, bytes, Reads::sign));
          for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(sign[i], x[i] > 0.0F ? 1.0F : 0.0F) << x[i];
            ASSERT_EQ(y[i] > 0.0F, x[i] > 0.0F) << x[i];
            if (!(x[i] > 0.0F)) {
              ASSERT_EQ(float_bits(y[i]), 0U);
            }
          }
        }
      }
    }
  }
}

TEST(Blpa, CodesTellSignsOfAllDataWhereTheGridKeepsThem) {
  for (const float gamma : {1.0F, -0.7F, 50.0F}) {
    for (const float beta : {0.0F, 0.9F, -1.1F}) {
      const float center = beta * std::fabs(gamma);
      const Description what =
          described(contiguous(1, {1, 1, 5000}), ElementType::float32, &center, &gamma);
      std::vector<float> x = normal_values(5000, 2, center, std::fabs(gamma));
      x[17] = 0.0F;
      x[18] = -0.0F;
      x[19] = 0x1p-149F;
      x[20] = -0x1p-149F;
      const auto codec = make_codec(blpa(4));
      const Bytes bytes = encode(*codec, what, make_source(what, x));
      ASSERT_TRUE(keeps_signs(grid_at(bytes, 0), 4));
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i] > 0.0F, x[i] > 0.0F) << x[i];
    }
  }
}

TEST(Blpa, SignsAreStoredWhereAChannelsGridLosesThem) {
  // The second channel's range excludes zero: its center is three scales and more away.
  const std::array<float, 3> center = {0.0F, 3.4F, -0.5F};
  const std::array<float, 3> scale = {1.0F, 1.0F, 1.0F};
  for (const ElementType type : kFloats) {
    const Description what =
        described(samples(4, 3, {1, 9, 11}), type, center.data(), scale.data());
    std::vector<float> values = rectified(what.layout.elements(), 21, 0.3F);
    const Bytes source = make_source(what, values);
    const std::vector<float> x = values_of(what, source);
    ASSERT_FALSE(keeps_signs(blpa_grid(3.4F, 1.0F, 4), 4));
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(blpa(4, true), engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_EQ(bytes.size(), codec->encoded_bytes(what));
      EXPECT_EQ(bytes.size(), 12 + (what.layout.elements() + 7) / 8 + what.layout.elements() / 2);
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      const std::vector<float> sign = values_of(what, decode(*codec, what, bytes, Reads::sign));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(sign[i], x[i] > 0.0F ? 1.0F : 0.0F);
        if (!(x[i] > 0.0F)) {
          ASSERT_EQ(float_bits(y[i]), 0U);
        }
      }
    }
  }
}

TEST(Blpa, NegativeElementsAreRefusedWhereSignsAreKept) {
  for (const PlaneLayout& layout : {samples(2, 3, {1, 9, 11}), samples(9, 3, {1, 1, 2})}) {
    for (const ElementType type : kFloats) {
      const Description what = described(layout, type);
      std::vector<float> x = rectified(layout.elements(), 1, 0.0F);
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const auto codec = make_codec(blpa(4, true), engine);
        EXPECT_FALSE(encode(*codec, what, make_source(what, x)).empty());
        x[17] = -1e-6F;
        EXPECT_TRUE(encode(*codec, what, make_source(what, x)).empty());
        EXPECT_FALSE(encode(*make_codec(blpa(4), engine), what, make_source(what, x)).empty());
        x[17] = -0.0F;
      }
    }
  }
}

TEST(Blpa, WithoutSignsSignsAreRefused) {
  const Description what = described(contiguous(2, {1, 4, 4}));
  const auto codec = make_codec(blpa(4));
  const Bytes bytes = encode(*codec, what, make_source(what, normal_values(32, 1)));
  EXPECT_FALSE(bytes.empty());
  EXPECT_TRUE(decode(*codec, what, bytes, Reads::sign).empty());
}

TEST(Blpa, EmptyTensorsSingleElementsAndConstants) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(blpa(4), engine);
    const Description empty = described(samples(0, 5, {1, 4, 4}));
    ASSERT_TRUE(codec->accepts(empty));
    Bytes bytes(codec->encoded_bytes(empty));
    EXPECT_EQ(bytes.size(), 20U);
    EXPECT_TRUE(codec->encode(empty, nullptr, bytes, {}, serial_for).representable);
    EXPECT_TRUE(codec->decode(empty, bytes, nullptr, Reads::values, serial_for));
    const Description none = described(samples(0, 0, {1, 4, 4}));
    EXPECT_EQ(codec->encoded_bytes(none), 0U);
    EXPECT_TRUE(codec->encode(none, nullptr, {}, {}, serial_for).representable);

    // What 16 bits for z leave of a number alone.
    for (const float value : {-3.25F, 0.0F, 1e-20F, 6e4F, 0x1p-140F}) {
      for (const std::int64_t n : {1, 77}) {
        const Description what = described(contiguous(n, {1, 1, 1}));
        const std::vector<float> x(n, value);
        const std::vector<float> y =
            values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))));
        for (const float v : y) EXPECT_NEAR(v, value, std::max(std::fabs(value) * 0x1p-15F, 4e-9F));
      }
    }
  }
}

TEST(Blpa, ChannelsThatCannotBeHeldArePoisonedAlone) {
  const std::array<float, 4> center = {0.0F, 4.0F, -0.5F, 1.0F};
  const std::array<float, 4> scale = {1.0F, 1.0F, 1.0F, 2.0F};
  for (const PlaneLayout& layout : {samples(3, 4, {1, 9, 11}), samples(9, 4, {1, 1, 3}),
                                    channels_last(3, 4, {1, 9, 11}), samples(2, 4, {1, 70, 70})}) {
    for (const ElementType type : kFloats) {
      for (const bool given : {false, true}) {
        for (const bool with_sign : {false, true}) {
          Description what = described(layout, type);
          if (given) {
            what.channel_center = center.data();
            what.channel_scale = scale.data();
          }
          for (const std::uint64_t bad :
               {bits_of_nan(type), bits_of_infinity(type), bits_of_infinity(type) + 1,
                bits_of_nan(type) << 1 >> 1}) {
            const std::int64_t where = layout.elements() * 2 / 3 + 1;
            Bytes source = make_source(what, rectified(layout.elements(), 1, 0.0F));
            reference::store_bits(source.data(), reference::offset_of(layout, where),
                                  element_size(type), bad);
            Bytes expected, expected_values;
            for (const Engine engine : {Engine::reference, Engine::cpu}) {
              const auto codec = make_codec(blpa(4, with_sign), engine);
              Bytes bytes(codec->encoded_bytes(what), std::byte{0x5A});
              const Encoded encoded = codec->encode(what, source.data(), bytes, {}, two_threads);
              EXPECT_FALSE(encoded.representable);
              bytes.resize(encoded.bytes);
              const Bytes decoded = decode(*codec, what, bytes);
              ASSERT_FALSE(decoded.empty());
              if (engine == Engine::reference) {
                expected = bytes;
                expected_values = decoded;
              }
              ASSERT_EQ(bytes, expected);
              ASSERT_EQ(decoded, expected_values);
              const auto channel = [&](std::int64_t k) { return k / layout.plane_size() % 4; };
              for (std::int64_t k = 0; k < layout.elements(); ++k) {
                const std::uint64_t bits = reference::load_bits(
                    decoded.data(), reference::offset_of(layout, k), element_size(type));
                if (channel(k) == channel(where)) {
                  ASSERT_EQ(bits, bits_of_nan(type)) << k;
                } else {
                  ASSERT_TRUE(std::isfinite(value_of(type, bits))) << k;
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Blpa, CentersAndScalesThatCannotBeHeldPoisonTheirChannel) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 3> center = {0.0F, nan, 0.0F};
  const std::array<float, 3> scale = {1.0F, 1.0F, 0x1p90F};
  const Description what =
      described(samples(3, 3, {1, 2, 3}), ElementType::float32, center.data(), scale.data());
  const Bytes source = make_source(what, normal_values(what.layout.elements(), 1));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(blpa(4), engine);
    Bytes bytes(codec->encoded_bytes(what));
    EXPECT_FALSE(codec->encode(what, source.data(), bytes, {}, serial_for).representable);
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 6 % 3 != 0) << i;
  }
}

TEST(Blpa, HugeAndTinyDataStayFinite) {
  for (const float magnitude : {0x1p80F, 0x1p-140F, 3e38F}) {
    const Description what = described(samples(2, 2, {1, 5, 7}));
    std::vector<float> x = normal_values(what.layout.elements(), 1);
    for (float& v : x) v = v > 0.0F ? magnitude : -magnitude;
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      for (const int bits : {1, 4, 8}) {
        const auto codec = make_codec(blpa(bits), engine);
        const Bytes bytes = encode(*codec, what, make_source(what, x));
        EXPECT_EQ(bytes.empty(), magnitude > 0x1p80F);
        if (bytes.empty()) continue;
        for (const float y : values_of(what, decode(*codec, what, bytes))) {
          EXPECT_TRUE(std::isfinite(y));
        }
      }
    }
  }
  // A center and data so far apart that their quotient is no integer of any kind.
  const float center = 0.0F;
  const float scale = 0.0F;
  const Description what =
      described(contiguous(1, {1, 1, 40}), ElementType::float32, &center, &scale);
  std::vector<float> x(40, 0x1p80F);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -0x1p80F;
  const auto codec = make_codec(blpa(4));
  const std::vector<float> y =
      values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i] > 0.0F, x[i] > 0.0F);
}

TEST(Blpa, MemoryFormatDoesNotChangeTheBytes) {
  for (const std::array<std::int64_t, 3> extent :
       {std::array<std::int64_t, 3>{1, 10, 6}, {2, 3, 5}, {1, 1, 1}, {1, 70, 65}}) {
    const Description rows = described(samples(3, 20, extent));
    const Description last = described(channels_last(3, 20, extent));
    const std::vector<float> x = normal_values(rows.layout.elements(), 2);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(blpa(3), engine);
      const Bytes bytes = encode(*codec, rows, make_source(rows, x));
      EXPECT_EQ(encode(*codec, last, make_source(last, x)), bytes);
      EXPECT_EQ(values_of(rows, decode(*codec, rows, bytes)),
                values_of(last, decode(*codec, last, bytes)));
    }
  }
}

TEST(Blpa, ParametersOutOfRangeMakeNoCodec) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    EXPECT_EQ(make_codec(blpa(0), engine), nullptr);
    EXPECT_EQ(make_codec(blpa(9), engine), nullptr);
  }
  EXPECT_FALSE(
      make_codec(blpa(4))->accepts(described(contiguous(1, {1, 1, 4}), ElementType::int64)));
}

/// Encoded bytes, representable or not.
Bytes encode_anything(const Codec& codec, const Description& what, const Bytes& source,
                      ParallelFor parallel) {
  Bytes out(codec.encoded_bytes(what), std::byte{0x5A});
  const Encoded encoded = codec.encode(what, source.data(), out, {}, parallel);
  out.resize(encoded.bytes);
  out.push_back(static_cast<std::byte>(encoded.representable));
  return out;
}

TEST(Blpa, EnginesWriteTheSameBytes) {
  for_each_target([&](const std::string& target) {
    Random random(19);
    for (int round = 0; round < 90 && !testing::Test::HasFailure(); ++round) {
      const CodecSpec spec = blpa(static_cast<int>(draw(random, 1, 8)), draw(random, 0, 1) != 0);
      Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      if (round % 4 == 0) {
        what.layout = samples(draw(random, 1, 40), draw(random, 1, 40),
                              {draw(random, 1, 3), 1, draw(random, 1, 40)});
      }
      if (round % 8 == 1) {
        what.layout =
            samples(draw(random, 1, 2), draw(random, 1, 2), {1, 1, draw(random, 1, 9000)});
      }
      if (round % 8 == 3) what.layout.outer_stride += draw(random, 0, 3);
      const std::int64_t channels = what.layout.channels();
      std::vector<float> center = normal_values(channels, random(), 0.0F, 2.0F);
      std::vector<float> scale = normal_values(channels, random());
      if (draw(random, 0, 1) != 0) {
        if (draw(random, 0, 3) == 0) scale[draw(random, 0, channels - 1)] = 0x1p100F;
        what.channel_center = center.data();
        what.channel_scale = scale.data();
      }
      const bool non_negative = spec.with_sign && draw(random, 0, 7) != 0;
      Bytes source = make_source(what, random_values(random, what.layout, non_negative));
      if (round % 5 == 0) put_not_finite(random, what, source);
      SCOPED_TRACE(target + " " + describe(what, spec));
      const auto reference = make_codec(spec, Engine::reference);
      const auto cpu = make_codec(spec, Engine::cpu);
      Bytes expected = encode_anything(*reference, what, source, serial_for);
      for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
        ASSERT_EQ(encode_anything(*cpu, what, source, parallel), expected);
      }
      expected.pop_back();
      for (const Reads reads : {Reads::nothing, Reads::sign, Reads::values}) {
        const Bytes decoded = decode(*reference, what, expected, reads);
        ASSERT_EQ(decoded.empty(),
                  reads == Reads::nothing || (reads == Reads::sign && !spec.with_sign));
        for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
          ASSERT_EQ(decode(*cpu, what, expected, reads, parallel), decoded) << int(reads);
        }
      }
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
