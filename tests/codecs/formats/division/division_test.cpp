// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/element_bits.h"
#include "codecs/philox.h"
#include "codecs/reference/division/division_plane.h"
#include "tests/codecs/resnet50.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

using reference::decode_plane;
using reference::DivisionPlane;
using reference::encode_plane;
using testing::ElementsAre;

std::uint32_t code_of(float r, AffineRange range, int bits, std::uint32_t draw) {
  return affine_code(r, float_of_bf16(range.lo), affine_scale(range), bits, draw);
}

CodecSpec division(int bits, int block, bool edge_ceil = true, bool with_sign = false) {
  return {.name = "division",
          .bits = bits,
          .block = block,
          .edge_ceil = edge_ceil,
          .with_sign = with_sign};
}

Description describe(PlaneLayout layout, ElementType type = ElementType::float32) {
  return {.type = type, .layout = layout, .index_extent = {1, 1, 1}};
}

std::vector<float> normal_values(std::int64_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3F, scale);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

// Eq. 9 worked by hand. A draw rounds up when it is at least 65536 * (1 - frac), that is when
// rho = 1 - draw / 65536 is at most frac.
TEST(Division, WorkedExample) {
  const std::vector<float> x = {0.0F, 0.75F, 2.25F, 3.0F};
  const std::vector<std::uint32_t> draws = {32768, 26214, 58982, 32768};
  const DivisionGeometry geometry({.bits = 2, .block = 2}, {1, 2, 2});
  const DivisionPlane plane = encode_plane(x, geometry, 2, draws);
  EXPECT_THAT(plane.means, ElementsAre(0x3FC0));
  EXPECT_EQ(plane.range.lo, 0xBFC0);
  EXPECT_EQ(plane.range.step, 0x3F80);
  EXPECT_THAT(plane.codes, ElementsAre(0, 1, 3, 3));
  EXPECT_THAT(decode_plane(plane, geometry), ElementsAre(0.0F, 1.0F, 3.0F, 3.0F));
  Bytes packed(1);
  for (int i = 0; i < 4; ++i) reference::put_bits(packed, 2 * i, 2, plane.codes[i]);
  EXPECT_EQ(packed[0], std::byte{0xF4});
}

TEST(Division, WorkedExampleTakesSevenBytes) {
  const Description what = describe(contiguous(1, {1, 2, 2}));
  const Bytes source = make_source(what, {0.0F, 0.75F, 2.25F, 3.0F});
  const Bytes bytes = encode(*make_codec(division(2, 2)), what, source);
  ASSERT_EQ(bytes.size(), 7U);
  const Bytes parameters(bytes.begin(), bytes.begin() + 6);
  EXPECT_THAT(parameters, ElementsAre(std::byte{0xC0}, std::byte{0x3F}, std::byte{0xC0},
                                      std::byte{0xBF}, std::byte{0x80}, std::byte{0x3F}));
}

TEST(Division, BitsPerElement) {
  struct Row {
    std::array<std::int64_t, 3> extent;
    int bits;
    int block;
    bool edge_ceil;
    double expected;
  };
  for (const Row& row : {Row{{1, 112, 112}, 2, 8, false, 2.2526},
                         {{1, 56, 56}, 2, 8, false, 2.2602},
                         {{1, 28, 28}, 2, 8, false, 2.2245},
                         {{1, 14, 14}, 2, 8, false, 2.2449},
                         {{1, 7, 7}, 2, 8, false, 2.9796},
                         {{1, 4, 4}, 2, 8, false, 5.0},
                         {{1, 2, 2}, 2, 8, false, 14.0},
                         {{1, 1, 1}, 2, 8, false, 50.0},
                         {{1, 1, 768}, 2, 64, false, 2.2917},
                         {{1, 1, 768}, 4, 8, false, 6.0417},
                         {{1, 28, 28}, 2, 8, true, 2.367},
                         {{1, 14, 14}, 2, 8, true, 2.490}}) {
    const Description what = describe(contiguous(64, row.extent));
    const auto codec = make_codec(division(row.bits, row.block, row.edge_ceil));
    const double bits = 8.0 * static_cast<double>(codec->encoded_bytes(what));
    EXPECT_NEAR(bits / static_cast<double>(what.layout.elements()), row.expected, 0.5e-3)
        << row.extent[1] << "x" << row.extent[2];
  }
}

double bits_per_element(std::int64_t edge, bool edge_ceil) {
  const Description what = describe(contiguous(64, {1, edge, edge}));
  return 8.0 * static_cast<double>(make_codec(division(2, 8, edge_ceil))->encoded_bytes(what)) /
         static_cast<double>(what.layout.elements());
}

TEST(Division, ConvolutionNormAndReluShrinkAsTheTheoremSays) {
  // Theorem 3A: of 4 + 4 + 1 bytes two tensors' bits and a bit of ReLU's mask are left.
  const auto ratio = [](std::int64_t edge) {
    return 9 / (2 * bits_per_element(edge, false) / 8 + 1.0 / 8);
  };
  EXPECT_NEAR(ratio(2), 2.48, 0.005);
  EXPECT_NEAR(ratio(4), 6.55, 0.005);
  EXPECT_NEAR(ratio(7), 10.346, 0.0005);
  EXPECT_NEAR(ratio(56), 13.043, 0.0005);
}

TEST(Division, ResNet50TakesWhatThePaperSays) {
  const auto stored = [](bool edge_ceil, bool twice) {
    const ResNet50 net(
        [edge_ceil](std::int64_t planes, std::int64_t edge) {
          // One row of features before the linear layer.
          const auto extent = edge == 1 ? std::array<std::int64_t, 3>{1, 1, planes}
                                        : std::array<std::int64_t, 3>{1, edge, edge};
          const Description what = describe(contiguous(edge == 1 ? 1 : planes, extent));
          return static_cast<std::int64_t>(
              make_codec(division(2, 8, edge_ceil))->encoded_bytes(what));
        },
        twice);
    return mebibytes(net.stored);
  };
  EXPECT_NEAR(stored(false, true), 7.24, 0.01 * 7.24);
  EXPECT_NEAR(stored(true, true), 7.46, 0.01 * 7.46);
  EXPECT_NEAR(stored(false, false), 6.8, 0.01 * 6.8);
  EXPECT_NEAR(stored(true, false), 7.0, 0.01 * 7.0);
  // With the image that the script keeps, at a batch of 64: Table 1a's 0.49 GB.
  EXPECT_NEAR(64 * (stored(false, true) + 4.0 * 3 * 224 * 224 / (1 << 20)) / 1024, 0.489, 0.005);
}

TEST(Division, StochasticRoundingIsExactOverAllDraws) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 2.0F);
  for (const int bits : {1, 2, 4, 8}) {
    const AffineRange range = affine_range(-1.0F, 2.0F, bits);
    const double lo = float_of_bf16(range.lo);
    const double step = float_of_bf16(range.step);
    for (int i = 0; i < 4; ++i) {
      const float r = i == 0 ? -1.0F : i == 1 ? 2.0F : uniform(random);
      double sum = 0.0;
      for (std::uint32_t draw = 0; draw < 65536; ++draw) {
        sum += code_of(r, range, bits, draw);
      }
      EXPECT_NEAR(lo + step * sum / 65536.0, r, step * 0x1p-16) << bits << " " << r;
    }
  }
}

/// Mean of errors[i] in standard errors.
double standard_errors(const std::vector<double>& errors) {
  double sum = 0.0, squares = 0.0;
  for (const double e : errors) {
    sum += e;
    squares += e * e;
  }
  const auto n = static_cast<double>(errors.size());
  return std::fabs(sum / n) / std::sqrt((squares / n - sum * sum / n / n) / n);
}

TEST(Division, IsUnbiasedAndFootnoteEightIsNot) {
  constexpr int kCount = 8192;
  const AffineRange range = affine_range(-1.0F, 2.0F, 2);
  const float r = float_of_bf16(range.lo) + 1.2F * float_of_bf16(range.step);
  std::vector<double> right, swapped;
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t draw = philox::draw16({.seed = 9, .entry = 0, .step = 0}, i);
    right.push_back(code_of(r, range, 2, draw) - 1.2);
    // Rounding up with the probability of rounding down, as the footnote has it.
    const bool up = draw >= 65536 * 0.2;
    swapped.push_back(1.0 + up - 1.2);
  }
  EXPECT_LT(standard_errors(right), 5.0);
  EXPECT_GT(standard_errors(swapped), 5.0);
}

TEST(Division, DecodedTensorsAreUnbiased) {
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
    const Description what = describe(contiguous(64, {1, 28, 28}), type);
    const Bytes source = make_source(what, normal_values(what.layout.elements(), 5));
    const std::vector<float> x = values_of(what, source);
    for (const bool edge_ceil : {true, false}) {
      const auto codec = make_codec(division(2, 8, edge_ceil));
      const std::vector<float> y =
          values_of(what, decode(*codec, what, encode(*codec, what, source, {1, 2, 3})));
      std::vector<double> errors;
      for (std::size_t i = 0; i < x.size(); ++i) errors.push_back(double{y[i]} - x[i]);
      EXPECT_LT(standard_errors(errors), 5.0);
    }
  }
}

TEST(Division, ErrorsStayWithinOneStep) {
  for (const float scale : {1.0F, 1e-3F, 1e-30F, 1e20F}) {
    for (const int bits : {1, 2, 5, 8}) {
      const Description what = describe(contiguous(3, {2, 9, 13}));
      const std::vector<float> x = normal_values(what.layout.elements(), 11, scale);
      const Bytes source = make_source(what, x);
      const auto codec = make_codec(division(bits, 4));
      const Bytes bytes = encode(*codec, what, source);
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      const DivisionGeometry geometry({.bits = bits, .block = 4}, what.layout.extent);
      const DivisionSections at({.bits = bits, .block = 4}, geometry, what.layout);
      for (std::size_t i = 0; i < x.size(); ++i) {
        AffineRange range;
        std::memcpy(&range, bytes.data() + at.ranges + 4 * (i / what.layout.plane_size()), 4);
        const float step = float_of_bf16(range.step);
        ASSERT_LE(std::fabs(y[i] - x[i]), step * 1.0001F + std::fabs(x[i]) * 1e-6F) << i;
      }
    }
  }
}

TEST(Division, ConstantPlanesOfBfloat16ValuesAreExact) {
  const Description what = describe(contiguous(4, {1, 13, 17}));
  std::vector<float> x(what.layout.elements());
  constexpr std::array<float, 4> kValues = {0.0F, -1.5F, 0x1.02p-3F, 96.0F};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = kValues[i / what.layout.plane_size()];
  const auto codec = make_codec(division(2, 8));
  const Bytes source = make_source(what, x);
  EXPECT_EQ(decode(*codec, what, encode(*codec, what, source)), source);
}

TEST(Division, EdgePaperPoolsTheTopLeftBlockAlone) {
  // 14 pixels: the only block is the top left 8 x 8, and it stands for everything.
  const DivisionGeometry geometry({.bits = 2, .block = 8, .edge_ceil = false}, {1, 14, 14});
  std::vector<float> x(14 * 14, 100.0F);
  for (int h = 0; h < 8; ++h) std::fill_n(x.begin() + 14 * h, 8, 2.0F);
  const DivisionPlane plane = encode_plane(x, geometry, 2, std::vector<std::uint32_t>(x.size()));
  EXPECT_THAT(plane.means, ElementsAre(bf16_nearest(2.0F)));
  // 28 pixels: three blocks, and nearest upsampling misaligns with them.
  const DivisionGeometry wide({.bits = 2, .block = 8, .edge_ceil = false}, {1, 1, 28});
  EXPECT_EQ(wide.blocks[2], 3);
  EXPECT_EQ(wide.covering(2, 9), 0);
  EXPECT_EQ(wide.covering(2, 10), 1);
  EXPECT_EQ(wide.covering(2, 27), 2);
}

TEST(Division, CoverBeginInvertsCovering) {
  for (const bool edge_ceil : {true, false}) {
    for (std::int64_t block = 1; block < 20; ++block) {
      for (std::int64_t n = 1; n < 60; ++n) {
        const DivisionGeometry g({.bits = 2, .block = block, .edge_ceil = edge_ceil}, {1, 1, n});
        ASSERT_EQ(g.cover_begin(2, 0), 0);
        ASSERT_EQ(g.cover_begin(2, g.blocks[2]), n);
        for (std::int64_t b = 0; b < g.blocks[2]; ++b) {
          ASSERT_EQ(g.covering(2, g.cover_begin(2, b)), b);
          ASSERT_EQ(g.covering(2, g.cover_begin(2, b + 1) - 1), b);
        }
      }
    }
  }
}

TEST(Division, NonFiniteAndHugeSourcesAreNotRepresentable) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(division(2, 8), engine);
    for (const float bad : {nan, -nan, inf, -inf, 0x1p81F, -0x1p121F}) {
      for (const std::int64_t where : {0, 52, 104}) {
        const Description what = describe(contiguous(5, {1, 3, 7}));
        std::vector<float> x(what.layout.elements(), 1.0F);
        x[where] = bad;
        EXPECT_TRUE(encode(*codec, what, make_source(what, x)).empty()) << bad << " " << where;
      }
    }
    for (const std::uint16_t bad : {0x7E00, 0x7C00, 0xFC00}) {
      const Description what = describe(contiguous(2, {1, 1, 33}), ElementType::float16);
      Bytes source = make_source(what, std::vector<float>(66, 1.0F));
      std::memcpy(source.data() + 2 * 65, &bad, 2);
      EXPECT_TRUE(encode(*codec, what, source).empty());
    }
  }
}

/// Where the parts of plane p lie in encoded bytes. @pre planes' codes fill whole bytes
struct PlaneBytes {
  std::int64_t means, mean_bytes, range, codes, code_bytes;

  PlaneBytes(const Description& what, const DivisionParameters& parameters, std::int64_t p) {
    const DivisionGeometry geometry(parameters, what.layout.extent);
    const DivisionSections at(parameters, geometry, what.layout);
    mean_bytes = 2 * geometry.block_count();
    means = p * mean_bytes;
    range = at.ranges + 4 * p;
    code_bytes = what.layout.plane_size() * parameters.bits / 8;
    codes = at.codes + p * code_bytes;
  }
};

TEST(Division, WhatCannotBeHeldPoisonsItsPlaneAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int64_t kBad = 3;
  for (const std::array<std::int64_t, 3> extent :
       {std::array<std::int64_t, 3>{1, 8, 7}, {1, 14, 12}, {1, 24, 40}, {4, 6, 5}, {1, 1, 200}}) {
    for (const bool edge_ceil : {true, false}) {
      for (const bool with_sign : {false, true}) {
        const DivisionParameters parameters = {
            .bits = 2, .block = 8, .edge_ceil = edge_ceil, .with_sign = with_sign};
        for (const ElementType type :
             {ElementType::float32, ElementType::bfloat16, ElementType::float16}) {
          const Description what = describe(contiguous(9, extent), type);
          const std::int64_t n = what.layout.plane_size();
          std::vector<float> x = normal_values(what.layout.elements(), 31);
          for (float& v : x) v = std::fabs(v);
          const Bytes whole = make_source(what, x);
          // The last element is one that edge_ceil = false doesn't average.
          for (const auto& [where, bad] :
               {std::pair{std::int64_t{0}, kNan}, {n / 2, kInfinity}, {n - 1, kNan}}) {
            x[kBad * n + where] = bad;
            const Bytes spoiled = make_source(what, x);
            x[kBad * n + where] = 1.0F;
            for (const Engine engine : {Engine::reference, Engine::cpu}) {
              const auto codec = make_codec(division(2, 8, edge_ceil, with_sign), engine);
              const Encoding good = encode_any(*codec, what, whole);
              const Encoding encoding = encode_any(*codec, what, spoiled);
              ASSERT_TRUE(good.representable);
              ASSERT_FALSE(encoding.representable);
              ASSERT_EQ(encoding.bytes.size(), good.bytes.size());

              const PlaneBytes at(what, parameters, kBad);
              const auto zeros = [&](std::int64_t begin, std::int64_t count) {
                return std::all_of(encoding.bytes.begin() + begin,
                                   encoding.bytes.begin() + begin + count,
                                   [](std::byte b) { return b == std::byte{0}; });
              };
              AffineRange range;
              std::memcpy(&range, encoding.bytes.data() + at.range, 4);
              EXPECT_EQ(range, poisoned_range());
              EXPECT_TRUE(zeros(at.means, at.mean_bytes));
              EXPECT_TRUE(zeros(at.codes, at.code_bytes));

              Bytes expected = decode(*codec, what, good.bytes);
              for (std::int64_t i = kBad * n; i < (kBad + 1) * n; ++i) {
                reference::store_bits(expected.data(), i, element_size(type), bits_of_nan(type));
              }
              EXPECT_EQ(decode(*codec, what, encoding.bytes), expected);
              if (!with_sign) continue;
              const std::vector<float> signs =
                  values_of(what, decode(*codec, what, encoding.bytes, Reads::sign));
              EXPECT_EQ(signs[kBad * n + where], bad > 0.0F ? 1.0F : 0.0F);
              EXPECT_EQ(signs[kBad * n + (where == 0 ? 1 : 0)], 1.0F);
            }
          }
        }
      }
    }
  }
}

TEST(Division, TheLargestMagnitudesAreHeld) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    for (const std::array<std::int64_t, 3> extent :
         {std::array<std::int64_t, 3>{1, 7, 7}, {1, 14, 14}, {1, 1, 100}}) {
      const Description what = describe(contiguous(3, extent));
      std::vector<float> x(what.layout.elements(), 1.0F);
      const auto codec = make_codec(division(2, 8), engine);
      for (const float large : {kAffineMaxMagnitude, -kAffineMaxMagnitude}) {
        x[5] = large;
        EXPECT_TRUE(encode_any(*codec, what, make_source(what, x)).representable);
        x[5] = std::nextafter(large, 2 * large);
        EXPECT_FALSE(encode_any(*codec, what, make_source(what, x)).representable);
      }
    }
  }
}

TEST(Division, NegativeElementsAreWrittenAsAlways) {
  const Description what = describe(contiguous(3, {1, 5, 9}));
  const Bytes source = make_source(what, normal_values(what.layout.elements(), 4));
  const auto with_sign = make_codec(division(2, 8, true, true));
  const Encoding encoding = encode_any(*with_sign, what, source, {1, 2, 3});
  EXPECT_FALSE(encoding.representable);
  const std::vector<float> values =
      values_of(what, decode(*make_codec(division(2, 8)), what,
                             encode(*make_codec(division(2, 8)), what, source, {1, 2, 3})));
  const std::vector<float> signed_values =
      values_of(what, decode(*with_sign, what, encoding.bytes));
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    EXPECT_EQ(signed_values[k], element(what, source, k) > 0.0F ? values[k] : 0.0F);
  }
}

TEST(Division, DecodedValuesAreFinite) {
  const Description half = describe(contiguous(1, {1, 16, 16}), ElementType::float16);
  std::vector<float> x = normal_values(256, 1, 1.0F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] > 0.3F ? 65504.0F : -65504.0F;
  const auto codec = make_codec(division(2, 8));
  for (const float y :
       values_of(half, decode(*codec, half, encode(*codec, half, make_source(half, x))))) {
    EXPECT_TRUE(std::isfinite(y));
  }
  const Description what = describe(contiguous(1, {1, 16, 16}));
  for (float& v : x) v = v > 0.0F ? 0x1p80F : -0x1p80F;
  for (const float y :
       values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))))) {
    EXPECT_TRUE(std::isfinite(y));
  }
}

TEST(Division, WithSignKeepsZerosAndSigns) {
  const Description what = describe(channels_last(2, 5, {1, 9, 11}));
  std::vector<float> x = normal_values(what.layout.elements(), 21);
  for (float& v : x) v = std::max(v, -0.0F);
  const Bytes source = make_source(what, x);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(division(2, 8, true, true), engine);
    const Bytes bytes = encode(*codec, what, source);
    const std::vector<float> values = values_of(what, decode(*codec, what, bytes));
    const std::vector<float> signs = values_of(what, decode(*codec, what, bytes, Reads::sign));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(signs[i], x[i] > 0.0F ? 1.0F : 0.0F);
      if (x[i] == 0.0F) {
        ASSERT_EQ(float_bits(values[i]), 0U);
      }
    }
    x[17] = -1e-30F;
    EXPECT_TRUE(encode(*codec, what, make_source(what, x)).empty());
    x[17] = 0.0F;
  }
}

TEST(Division, WithoutSignsSignsAreRefused) {
  const Description what = describe(contiguous(2, {1, 4, 4}));
  const auto codec = make_codec(division(2, 8));
  const Bytes bytes = encode(*codec, what, make_source(what, normal_values(32, 1)));
  EXPECT_FALSE(bytes.empty());
  EXPECT_TRUE(decode(*codec, what, bytes, Reads::sign).empty());
}

TEST(Division, MemoryFormatDoesNotChangeTheBytes) {
  const Description rows = describe(contiguous(12, {1, 10, 6}));
  const Description last = describe(channels_last(3, 4, {1, 10, 6}));
  const std::vector<float> x = normal_values(rows.layout.elements(), 2);
  const auto codec = make_codec(division(3, 4));
  EXPECT_EQ(encode(*codec, rows, make_source(rows, x)), encode(*codec, last, make_source(last, x)));
}

TEST(Division, DrawsFollowSeedEntryAndStep) {
  const Description what = describe(contiguous(4, {1, 16, 16}));
  const Bytes source = make_source(what, normal_values(1024, 2));
  const auto codec = make_codec(division(2, 8));
  const Bytes bytes = encode(*codec, what, source, {1, 2, 3});
  EXPECT_EQ(encode(*codec, what, source, {1, 2, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {2, 2, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {1, 3, 3}), bytes);
  EXPECT_NE(encode(*codec, what, source, {1, 2, 4}), bytes);
}

TEST(Division, ParametersOutOfRangeMakeNoCodec) {
  EXPECT_EQ(make_codec(division(0, 8)), nullptr);
  EXPECT_EQ(make_codec(division(9, 8)), nullptr);
  EXPECT_EQ(make_codec(division(2, 0)), nullptr);
}

}  // namespace
}  // namespace cinch::codecs::test
