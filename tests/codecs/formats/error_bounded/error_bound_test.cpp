// SPDX-License-Identifier: Apache-2.0
// The lattice of codecs/formats/error_bounded/error_bound.h, and its promise over every class of
// numbers through the codec that uses it.
#include "codecs/formats/error_bounded/error_bound.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

using testing::ElementsAre;

constexpr const char* kName = "error_bounded_ratio";

/// Bounds of every size: typical ones, powers of 2 that 16-bit elements meet exactly, the largest
/// and smallest that floats have, denormals.
const std::vector<float> kBounds = {
    0.1F,      0.01F,        0.0123F,  0x1p-7F, 1e-3F,     1e-5F,    0.5F,      1.0F,
    3.0F,      1e4F,         65504.0F, 1e6F,    1e30F,     0x1p126F, 1.9e38F,   0x1.FFFFFEp127F,
    1e-20F,    0x1p-24F,     0x1p-25F, 3e-8F,   0x1p-126F, 1e-40F,   0x1p-133F, 0x1p-148F,
    0x1p-149F, 3 * 0x1p-149F};

float code_of(float x, const Lattice& lattice) {
  return std::copysign(code_magnitude(std::fabs(x), lattice), x);
}

TEST(ErrorBound, TheWorkedExample) {
  // COMET, Eq. 3: sigma = 8e-5, L = 1e-3, N = 10, R = 0.625.
  const auto bound = static_cast<float>(8e-5 / (0.32 * 1e-3 * std::sqrt(10 * 0.625)));
  EXPECT_NEAR(bound, 0.1, 1e-7);
  const ErrorBound lattices = error_bound_of(ElementType::float32, 0.1F);
  const std::vector<float> x = {0.0F, 0.0F, 0.05F, 0.15F, 0.42F, 1.0F, -0.33F, 0.0F};
  std::vector<int> codes, differences, paper;
  std::vector<float> values;
  for (const float v : x) {
    const float code = code_of(v, lattices.coarse);
    EXPECT_TRUE(is_held(lattices, std::fabs(v), std::fabs(code), lattices.coarse)) << v;
    differences.push_back(static_cast<int>(code) - (codes.empty() ? 0 : codes.back()));
    codes.push_back(static_cast<int>(code));
    values.push_back(std::copysign(
        value_magnitude(ElementType::float32, std::fabs(code), lattices.coarse), code));
    paper.push_back(static_cast<int>(std::nearbyint(v / 0.2)));
  }
  // The paper's lattice loses 0.05, and with it the sign; ours has every bin on one side of zero.
  EXPECT_THAT(paper, ElementsAre(0, 0, 0, 1, 2, 5, -2, 0));
  EXPECT_THAT(codes, ElementsAre(0, 0, 1, 1, 3, 5, -2, 0));
  EXPECT_THAT(differences, ElementsAre(0, 0, 1, 0, 2, 2, -7, 2));
  const std::vector<float> expected = {0.0F, 0.0F, 0.1F, 0.1F, 0.5F, 0.9F, -0.3F, 0.0F};
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-7);
}

TEST(ErrorBound, BoundsAreRoundedDownToTheType) {
  for (const ElementType type : kFloats) {
    for (const float bound : kBounds) {
      const float limit = bound_in(type, bound);
      EXPECT_LE(limit, bound);
      EXPECT_EQ(round_to(type, limit), limit);
      EXPECT_TRUE(limit == bound || type != ElementType::float32);
      if (type == ElementType::float16 && bound < 65504.0F && bound >= 0x1p-14F) {
        EXPECT_GT(limit, bound * (1 - 0x1p-10F));
      }
    }
  }
}

/// Every finite 16-bit magnitude: what is held is within the bound in double arithmetic and has
/// kept its sign, zero is held, and the fine lattice holds all whose code is not too large.
void check_16_bits(ElementType type, float bound) {
  const ErrorBound lattices = error_bound_of(type, bound);
  const std::uint32_t infinity = type == ElementType::bfloat16 ? 0x7F80 : 0x7C00;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const float x = value_of(type, bits);
    for (const bool is_fine : {false, true}) {
      if (is_fine && !lattices.has_fine) continue;
      const Lattice& lattice = lattices.lattice(is_fine);
      const float code = code_magnitude(x, lattice);
      const bool held = is_held(lattices, x, code, lattice);
      if (is_fine && lattices.is_regular) {
        ASSERT_EQ(held, code <= kMaxCode) << x << " " << bound;
      }
      if (!held) continue;
      const float y = value_magnitude(type, code, lattice);
      ASSERT_LE(std::fabs(double{x} - double{y}), double{bound}) << x << " " << bound;
      ASSERT_EQ(x > 0.0F, y > 0.0F) << x << " " << bound;
      ASSERT_EQ(round_to(type, y), y);
    }
    ASSERT_FALSE(is_held(lattices, std::numeric_limits<float>::quiet_NaN(),
                         code_magnitude(std::numeric_limits<float>::quiet_NaN(), lattices.coarse),
                         lattices.coarse));
  }
}

TEST(ErrorBound, Every16BitPatternIsHeldWithinTheBound) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    for (const float bound : kBounds) check_16_bits(type, bound);
    // All mantissas of one bound's binade that bfloat16 tells apart, and some between.
    std::mt19937 random(1);
    for (int mantissa = 0; mantissa < 128; mantissa += 3) {
      check_16_bits(type, (1.0F + mantissa / 128.0F) * 0x1p-7F);
      check_16_bits(type, (1.0F + random() % (1 << 23) * 0x1p-23F) * 0x1p-3F);
    }
  }
}

/// Values whose decoded ones are checked against them: all 2^16 patterns, or of float32 every
/// exponent and sign with mantissas at the edges and at random.
Bytes every_class(ElementType type) {
  std::mt19937 random(7);
  Bytes source;
  const auto add = [&](std::uint64_t bits) {
    const std::size_t size = source.size();
    source.resize(size + element_size(type));
    std::memcpy(source.data() + size, &bits, element_size(type));
  };
  if (type != ElementType::float32) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) add(bits);
    return source;
  }
  for (std::uint32_t exponent = 0; exponent < 512; ++exponent) {  // with the sign
    for (const std::uint32_t mantissa :
         {0x0U, 0x1U, 0x2U, 0x3FFFFFU, 0x400000U, 0x400001U, 0x7FFFFEU, 0x7FFFFFU}) {
      add(exponent << 23 | mantissa);
    }
    for (int i = 0; i < 56; ++i) add(exponent << 23 | (random() & 0x7FFFFFU));
  }
  return source;
}

/// What is promised of each element: NaN and infinity to the bit, zeros, signs, and the bound.
void expect_within(const Description& what, const Bytes& source, const Bytes& decoded,
                   float bound) {
  ASSERT_EQ(decoded.size(), source.size());
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    const float x = element(what, source, k);
    const float y = element(what, decoded, k);
    if (!std::isfinite(x)) {
      ASSERT_EQ(std::memcmp(source.data() + k * std::int64_t(element_size(what.type)),
                            decoded.data() + k * std::int64_t(element_size(what.type)),
                            element_size(what.type)),
                0)
          << k;
      continue;
    }
    ASSERT_LE(std::fabs(double{x} - double{y}), double{bound}) << x << " " << y;
    ASSERT_EQ(x > 0.0F, y > 0.0F) << x << " " << y;
    ASSERT_EQ(x < 0.0F, y < 0.0F) << x << " " << y;
  }
}

TEST(ErrorBound, HoldsForEveryClassOfNumbers) {
  for (const ElementType type : kFloats) {
    const Bytes source = every_class(type);
    const auto n = static_cast<std::int64_t>(source.size() / element_size(type));
    Description what{.type = type, .layout = PlaneLayout::rows(n, 64)};
    for (const float bound : kBounds) {
      SCOPED_TRACE(std::string(type_name(type)) + " " + std::to_string(bound));
      const auto codec = make_codec({.name = kName, .error_bound = bound});
      const Bytes bytes = encode(*codec, what, source);
      ASSERT_FALSE(bytes.empty());
      expect_within(what, source, decode(*codec, what, bytes), bound);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ErrorBound, HoldsAtTheEdgesOfBins) {
  std::mt19937 random(3);
  for (const float bound : {0.1F, 0.01F, 1e-3F, 0.25F, 1e-40F}) {
    std::vector<float> x;
    for (int i = 0; i < 40000; ++i) {
      const auto bin = static_cast<float>(random() % (i % 4 == 0 ? 5000000 : 300));
      float edge = bin * 2.0F * bound;
      const auto bits = float_bits(edge) + random() % 5;
      edge = float_of_bits(bits >= 2 ? bits - 2 : bits);
      x.push_back(random() % 2 != 0 ? -edge : edge);
    }
    for (const ElementType type : kFloats) {
      const Description what{.type = type, .layout = PlaneLayout::rows(40000, 100)};
      const Bytes source = make_source(what, x);
      const auto codec = make_codec({.name = kName, .error_bound = bound});
      expect_within(what, source, decode(*codec, what, encode(*codec, what, source)), bound);
    }
  }
}

TEST(ErrorBound, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(11);
    for (int round = 0; round < 100 && !testing::Test::HasFailure(); ++round) {
      const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      std::vector<float> values = random_values(random, what.layout, draw(random, 0, 3) == 0);
      if (draw(random, 0, 2) == 0) {  // smooth, or sparse
        for (std::size_t k = 1; k < values.size(); ++k) {
          values[k] = round % 2 != 0            ? values[k - 1] + 0.05F * values[k]
                      : draw(random, 0, 9) != 0 ? 0.0F
                                                : values[k];
        }
      }
      if (draw(random, 0, 3) == 0) {
        for (int i = 0; i < 5; ++i) {
          constexpr std::array kStrange = {std::numeric_limits<float>::quiet_NaN(),
                                           -std::numeric_limits<float>::infinity(), 1e30F, -0.0F,
                                           0x1p-149F};
          values[draw(random, 0, std::int64_t(values.size()) - 1)] = kStrange[i];
        }
      }
      const Bytes source = make_source(what, values);
      const float bound = round % 5 == 0
                              ? kBounds[draw(random, 0, std::int64_t(kBounds.size()) - 1)]
                              : std::pow(10.0F, -0.1F * float(draw(random, 0, 45)));
      const CodecSpec spec = {.name = kName, .error_bound = bound, .refresh = 1};
      SCOPED_TRACE(target + " " + describe(what, spec) + " bound " + std::to_string(bound));
      expect_same_engines(spec, what, source, {});
    }
  });
}

TEST(ErrorBound, ThreadsDoNotShowInTheBytes) {
  Random random(5);
  // Parts large enough to be cut many times, with sizes that differ from part to part.
  for (const PlaneLayout& layout :
       {contiguous(37, {1, 100, 103}), channels_last(2, 24, {1, 80, 90}),
        contiguous(3, {1, 1, 90001})}) {
    const Description what{.type = ElementType::float32, .layout = layout};
    std::vector<float> values(layout.elements());
    std::normal_distribution<float> normal;
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = normal(random) * std::exp2(static_cast<float>(k / 5000 % 7) - 4.0F);
      if (k / 9000 % 3 == 0) values[k] = 0.0F;
    }
    const Bytes source = make_source(what, values);
    expect_same_engines({.name = kName, .error_bound = 0.01F}, what, source, {});
  }
}

TEST(ErrorBound, MemoryFormatDoesNotChangeTheBytes) {
  const Description rows{.type = ElementType::float32, .layout = contiguous(12, {1, 30, 26})};
  const Description last{.type = ElementType::float32, .layout = channels_last(3, 4, {1, 30, 26})};
  Random random(2);
  const std::vector<float> x = random_values(random, rows.layout, false);
  const auto one = make_codec({.name = kName, .error_bound = 0.01F});
  const auto other = make_codec({.name = kName, .error_bound = 0.01F});
  EXPECT_EQ(encode(*one, rows, make_source(rows, x)), encode(*other, last, make_source(last, x)));
}

TEST(ErrorBound, SignsAreServed) {
  Random random(8);
  for (const ElementType type : kFloats) {
    const Description what{.type = type, .layout = contiguous(7, {1, 40, 50})};
    std::vector<float> x = random_values(random, what.layout, false);
    x[17] = 0x1p-140F;  // a positive float32 and bfloat16, 0 as float16
    x[18] = -1e38F;
    x[19] = std::numeric_limits<float>::quiet_NaN();
    x[20] = std::numeric_limits<float>::infinity();
    const Bytes source = make_source(what, x);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec({.name = kName, .error_bound = 0.3F}, engine);
      EXPECT_EQ(codec->restores(), Reads::values);
      const std::vector<float> signs =
          values_of(what, decode(*codec, what, encode(*codec, what, source), Reads::sign));
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float value = element(what, source, std::int64_t(k));
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(signs[k]));
        } else {
          ASSERT_EQ(signs[k], value > 0.0F ? 1.0F : 0.0F) << k;
        }
      }
    }
  }
}

TEST(ErrorBound, EmptyAndSingleElementsWork) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec({.name = kName, .error_bound = 0.01F}, engine);
    const Description none{.type = ElementType::float32, .layout = contiguous(0, {1, 3, 5})};
    const Bytes bytes = encode(*codec, none, {});
    EXPECT_FALSE(bytes.empty());
    EXPECT_TRUE(codec->decode(none, bytes, nullptr, Reads::values, serial_for));
    for (const float x : {0.0F, 1.0F, -3e30F, 0x1p-149F}) {
      const Description one{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 1})};
      const Bytes source = make_source(one, {x});
      expect_within(one, source, decode(*codec, one, encode(*codec, one, source)), 0.01F);
    }
  }
}

TEST(ErrorBound, BoundsOutOfRangeMakeNoCodec) {
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      EXPECT_EQ(make_codec({.name = kName, .error_bound = bad}, engine), nullptr);
    }
  }
  EXPECT_EQ(make_codec({.name = kName, .error_bound = 1.0F, .refresh = 0}), nullptr);
}

TEST(ErrorBound, OtherTypesAreNotAccepted) {
  const auto codec = make_codec({.name = kName, .error_bound = 1.0F});
  for (const ElementType type : kTypes) {
    const Description what{.type = type, .layout = contiguous(1, {1, 1, 4})};
    EXPECT_EQ(codec->accepts(what), is_quantizable(type));
  }
}

}  // namespace
}  // namespace cinch::codecs::test
