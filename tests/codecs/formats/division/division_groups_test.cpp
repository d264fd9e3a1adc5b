// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/reference/division/division_plane.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

CodecSpec in_groups(int bits, int group, bool dithered = false) {
  return {
      .name = "division", .bits = bits, .residual_group = group, .subtractive_dither = dithered};
}

constexpr std::array kBothEngines = {Engine::reference, Engine::cpu};

TEST(DivisionGroups, WorkedExample) {
  // No draw matters to residuals without fraction.
  std::vector<float> x;
  for (const float mean : {10.0F, -4.0F}) {
    for (const float r : {-1.5F, -0.5F, 0.5F, 1.5F, -1.5F, -0.5F, 0.5F, 1.5F}) {
      x.push_back(mean + r);
    }
  }
  const Description what{.layout = contiguous(1, {1, 1, 16})};
  const Bytes source = make_source(what, x);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(in_groups(2, 8), engine);
    const Bytes bytes = encode(*codec, what, source);
    const std::array<int, 28> expected = {
        0x20, 0x41, 0x80, 0xC0, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,  // means
        0xC0, 0xBF, 0x80, 0x3F, 0xC0, 0xBF, 0x80, 0x3F,  // lo and step of each group
        0xE4, 0xE4, 0xE4, 0xE4};
    ASSERT_EQ(bytes.size(), expected.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(int(bytes[i]), expected[i]) << i;
    EXPECT_EQ(decode(*codec, what, bytes), source);
  }
}

TEST(DivisionGroups, HoldsResidualsAsGroupQuantDoes) {
  constexpr RandomKey kKey = {4, 5, 6};
  Random random(41);
  for (const ElementType type : kFloats) {
    for (const bool dithered : {false, true}) {
      const Description what{.type = type, .layout = channels_last(2, 3, {1, 20, 37})};
      const Description residuals{.layout = contiguous(6, {1, 20, 37})};
      const CodecSpec spec = in_groups(3, 64, dithered);
      const CodecSpec groups{
          .name = "group_quant", .bits = 3, .group = 64, .subtractive_dither = dithered};
      const DivisionGroupsParameters parameters = division_groups_of(spec);
      const DivisionGroupsSections at(parameters, what.layout);
      const DivisionGeometry geometry(parameters.means, what.layout.extent);
      const auto covering = reference::covering_blocks(geometry);
      const std::int64_t size = what.layout.plane_size();

      const Bytes source = make_source(what, random_values(random, what.layout, false));
      const std::vector<float> x = values_of(what, source);
      std::vector<float> means, r;
      for (std::int64_t p = 0; p < what.layout.planes(); ++p) {
        const auto plane = std::span(x).subspan(p * size, size);
        const std::vector<float> exact = reference::block_means(plane, geometry);
        for (std::int64_t i = 0; i < size; ++i) {
          means.push_back(float_of_bf16(held_mean(exact[covering[i]])));
          r.push_back(plane[i] - means.back());
        }
      }
      const auto inner = make_codec(groups, Engine::reference);
      const Bytes expected = encode(*inner, residuals, make_source(residuals, r), kKey);
      const std::vector<float> v = values_of(residuals, decode(*inner, residuals, expected));
      Bytes sum(source_bytes(what));
      for (std::size_t k = 0; k < v.size(); ++k) {
        set_element(what, sum, static_cast<std::int64_t>(k), means[k] + v[k]);
      }
      for (const Engine engine : kBothEngines) {
        const auto codec = make_codec(spec, engine);
        const Bytes bytes = encode(*codec, what, source, kKey);
        EXPECT_EQ(Bytes(bytes.begin() + at.residuals, bytes.end()), expected);
        EXPECT_EQ(decode(*codec, what, bytes), sum);
      }
    }
  }
}

/// The sum of squares of what decoding adds to `x`.
double squared_error(const CodecSpec& spec, const Description& what, const std::vector<float>& x) {
  const auto codec = make_codec(spec);
  const Bytes bytes = encode(*codec, what, make_source(what, x), {1, 2, 3});
  const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
  double sum = 0.0;
  for (std::size_t k = 0; k < x.size(); ++k) sum += std::pow(double{y[k]} - x[k], 2);
  return sum;
}

TEST(DivisionGroups, AnOutlierCostsItsGroupOnly) {
  const Description what{.layout = contiguous(4, {1, 64, 64})};
  std::vector<float> x = values_of(what, normal_floats(what, false));
  for (std::size_t k = 100; k < x.size(); k += 4096) x[k] = 100.0F;
  EXPECT_LT(squared_error(in_groups(2, 256), what, x),
            squared_error({.name = "division"}, what, x) / 8);
}

TEST(DivisionGroups, DitheringHalvesTheErrorOfGaussianData) {
  const Description what{.layout = contiguous(4, {1, 64, 64})};
  const std::vector<float> x = values_of(what, normal_floats(what, false));
  EXPECT_LT(squared_error(in_groups(2, 256, true), what, x),
            0.55 * squared_error(in_groups(2, 256), what, x));
}

TEST(DivisionGroups, WhatCannotBeHeldPoisonsItsGroupsAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // The mean of a block with such a NaN may round to a number.
  const float nan = float_of_bits(0x7FFFFFFF);
  const Description what{.layout = contiguous(3, {1, 16, 24})};
  const std::int64_t size = what.layout.plane_size();
  const std::vector<float> good = values_of(what, normal_floats(what, false));
  for (const float bad : {nan, -nan, kInfinity, -kInfinity, 0x1p81F, 0x1p127F}) {
    for (const std::int64_t where : {std::int64_t{0}, size - 1, 2 * size + 50}) {
      std::vector<float> x = good;
      x[where] = bad;
      const Bytes source = make_source(what, x);
      const auto codec = make_codec(in_groups(4, 8));
      const Encoding encoding = encode_any(*codec, what, source);
      const Encoding reference =
          encode_any(*make_codec(in_groups(4, 8), Engine::reference), what, source);
      EXPECT_FALSE(encoding.representable);
      EXPECT_FALSE(reference.representable);
      EXPECT_EQ(encoding.bytes, reference.bytes) << bad;

      const std::vector<float> y = values_of(what, decode(*codec, what, encoding.bytes));
      for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
        if (k / 8 == where / 8) {
          EXPECT_TRUE(std::isnan(y[k])) << k;
        } else if (k / size != where / size) {
          EXPECT_NEAR(y[k], x[k], 1.0F) << k;
        } else {
          // A mean of 2^75 leaves its block's other residuals without precision.
          EXPECT_TRUE(std::isfinite(y[k])) << k;
        }
      }
    }
  }
}

TEST(DivisionGroups, MeansThatCannotBeHeldAreZero) {
  EXPECT_EQ(held_mean(0x1p80F), 0x6780);
  EXPECT_EQ(held_mean(-0x1p80F), 0xE780);
  EXPECT_EQ(held_mean(0x1.02p80F), 0);
  EXPECT_EQ(held_mean(std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(held_mean(float_of_bits(0x7FFFFFFF)), 0);
  // Sums overflow, elements do not.
  const Description what{.layout = contiguous(2, {1, 9, 9})};
  std::vector<float> x(what.layout.elements(), 0x1p127F);
  std::fill_n(x.begin(), 81, 1.5F);
  const Bytes source = make_source(what, x);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(in_groups(2, 16), engine);
    const Encoding encoding = encode_any(*codec, what, source);
    EXPECT_FALSE(encoding.representable);
    EXPECT_EQ(load<std::uint16_t>(encoding.bytes, 0), 0x3FC0);
    EXPECT_EQ(load<std::uint16_t>(encoding.bytes, 8), 0);
    const std::vector<float> y = values_of(what, decode(*codec, what, encoding.bytes));
    EXPECT_EQ(y.front(), 1.5F);
    EXPECT_TRUE(std::isnan(y.back()));
  }
}

TEST(DivisionGroups, SignsLieBesideTheValues) {
  const Description what{.layout = channels_last(2, 5, {1, 9, 11})};
  CodecSpec spec = in_groups(2, 16);
  spec.with_sign = true;
  const Bytes source = normal_floats(what, true);
  const std::vector<float> x = values_of(what, source);
  for (const Engine engine : kBothEngines) {
    const auto codec = make_codec(spec, engine);
    const Bytes bytes = encode(*codec, what, source);
    const std::vector<float> signs = values_of(what, decode(*codec, what, bytes, Reads::sign));
    const std::vector<float> values = values_of(what, decode(*codec, what, bytes));
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_EQ(signs[k], x[k] > 0.0F ? 1.0F : 0.0F);
      if (x[k] == 0.0F) {
        EXPECT_EQ(float_bits(values[k]), 0U);
      }
    }
  }
}

TEST(DivisionGroups, ParametersOutOfRangeMakeNoCodec) {
  for (const int group : {-8, 4, 12}) EXPECT_EQ(make_codec(in_groups(2, group)), nullptr);
  EXPECT_EQ(make_codec(in_groups(0, 8)), nullptr);
  EXPECT_NE(make_codec(in_groups(8, 8)), nullptr);
}

// Without groups the bytes are the paper's, whatever else is said.
TEST(DivisionGroups, DitherAloneChangesNothing) {
  const Description what{.layout = contiguous(2, {1, 16, 16})};
  const Bytes source = normal_floats(what, false);
  EXPECT_EQ(encode(*make_codec(in_groups(2, 0, true)), what, source),
            encode(*make_codec({.name = "division"}), what, source));
}

}  // namespace
}  // namespace cinch::codecs::test
