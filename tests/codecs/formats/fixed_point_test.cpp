// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/fixed_point.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

CodecSpec fixed_point(float error_bound, bool zero_value = true) {
  return {.name = "fixed_point", .error_bound = error_bound, .zero_value = zero_value};
}

/// `outer` samples of `inner` channels, contiguous.
PlaneLayout samples(std::int64_t outer, std::int64_t inner, std::array<std::int64_t, 3> extent) {
  PlaneLayout layout = contiguous(outer * inner, extent);
  layout.outer = outer;
  layout.inner = inner;
  layout.inner_stride = layout.plane_size();
  layout.outer_stride = inner * layout.inner_stride;
  return layout;
}

/// Rows of `features` channels of one element, as linear inputs have them.
PlaneLayout features(std::int64_t rows, std::int64_t features) {
  return channels_last(rows, features, {1, 1, 1});
}

Description describe(PlaneLayout layout, ElementType type = ElementType::float32) {
  return {.type = type, .layout = layout};
}

std::vector<float> normal_values(std::int64_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3F * scale, scale);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

/// The channel of the element at logical index `k`.
std::int64_t channel_of(const PlaneLayout& layout, std::int64_t k) {
  return k / layout.plane_size() % layout.inner;
}

ChannelFormat format_of(const Bytes& bytes, std::int64_t channel) {
  ChannelFormat format;
  EXPECT_TRUE(
      read_entry(bytes.data() + kFixedPointHeaderBytes + channel * kFixedPointEntryBytes, format));
  return format;
}

/// Encodes with both engines, which must agree.
Bytes encode_both(const CodecSpec& spec, const Description& what, const Bytes& source,
                  RandomKey key = {}) {
  const Bytes bytes = encode(*make_codec(spec, Engine::reference), what, source, key);
  EXPECT_EQ(encode(*make_codec(spec), what, source, key), bytes);
  return bytes;
}

// AC-GC's Table 1A and Eq. 11 worked by hand: columns of range 2, bound 1.0548.
TEST(FixedPoint, WorkedExample) {
  const Description what = describe(features(2, 2));
  const Bytes source = make_source(what, {1.0F, 2.0F, 3.0F, 4.0F});
  const float bound = std::sqrt(1.1125F);
  EXPECT_NEAR(bound, 1.0548F, 5e-5F);
  const Bytes bytes = encode_both(fixed_point(bound), what, source);
  ASSERT_EQ(bytes.size(), 32U + 2 * 5 + 2 * 1);
  for (const int c : {0, 1}) {
    const ChannelFormat format = format_of(bytes, c);
    EXPECT_EQ(format.form, ChannelForm::codes);
    EXPECT_EQ(format.bits, 2);
    EXPECT_EQ(float_of_bf16(format.range.lo), 1.0F + static_cast<float>(c));
    // 2 / 3, up to the next bfloat16.
    EXPECT_EQ(float_of_bf16(format.range.step), 0.66796875F);
  }
  // The range's ends are codes 0 and, or nearly so, 3: 2.99 steps.
  for (const std::byte codes : {bytes[42], bytes[43]}) {
    EXPECT_EQ(std::to_integer<int>(codes) & 3, 0);
    EXPECT_GE(std::to_integer<int>(codes) >> 2, 2);
  }
}

TEST(FixedPoint, BitsAreTheFewestWhoseStepHoldsTheBound) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0.1F, 4.0F);
  int as_the_paper = 0;
  int cases = 0;
  for (int round = 0; round < 4000; ++round) {
    const float min = uniform(random) - 2.0F;
    const float max = min + uniform(random);
    const float bound = std::exp2(-uniform(random) * 3.0F);
    const ChannelFormat format = fit_channel(min, max, true, bound, ElementType::float32);
    const double paper = std::ceil(std::log2((double(max) - double(min)) / double(bound) + 1.0));
    ASSERT_GE(format.bits, 2);
    const double step = float_of_bf16(format.range.step);
    EXPECT_LE(step, bound);
    EXPECT_GE(format.bits, paper);
    // More than the paper has only where the stored step, up to 2^-7 larger, would exceed it.
    const auto q = static_cast<double>((1 << static_cast<int>(std::max(paper, 2.0))) - 1);
    const double lo = float_of_bf16(format.range.lo);
    if (format.bits > std::max(paper, 2.0)) {
      EXPECT_GT((max - lo) / q * (1.0 + 0x1p-7) * 1.001, bound);
      EXPECT_EQ(format.bits, paper + 1.0);
    } else {
      ++as_the_paper;
    }
    ++cases;
  }
  EXPECT_GT(as_the_paper, cases * 95 / 100);
}

TEST(FixedPoint, EveryNumberOfBitsIsChosenWhereItShouldBe) {
  for (int bits = 2; bits <= 16; ++bits) {
    const float step = float_of_bf16(affine_range(0.0F, 3.0F, bits).step);
    const auto fit = [](float bound) {
      return fit_channel(0.0F, 3.0F, true, bound, ElementType::float32).bits;
    };
    EXPECT_EQ(fit(step * 1.03F), bits);
    EXPECT_EQ(fit(step * 0.99F), bits == 16 ? 0 : bits + 1);
  }
}

TEST(FixedPoint, BitsPerElement) {
  const std::int64_t channels = 6;
  const Description what = describe(samples(8, channels, {1, 24, 24}));
  const std::int64_t m = 8 * 24 * 24;
  for (const float bound : {1.0F, 0.1F, 0.01F, 0.001F}) {
    const Bytes bytes = encode_both(fixed_point(bound), what,
                                    make_source(what, normal_values(what.layout.elements(), 3)));
    double bits = 0.0;
    for (std::int64_t c = 0; c < channels; ++c) {
      EXPECT_EQ(format_of(bytes, c).form, ChannelForm::codes);
      bits += format_of(bytes, c).bits;
    }
    const double expected = bits / double(channels) + 40.0 / double(m);
    const double header = 8.0 * 32.0 / double(what.layout.elements());
    EXPECT_DOUBLE_EQ(8.0 * double(bytes.size()) / double(what.layout.elements()),
                     expected + header);
  }
}

TEST(FixedPoint, BitsPerElementWithZeroValueCompression) {
  const std::int64_t channels = 4;
  const Description what = describe(samples(16, channels, {1, 40, 40}));
  const std::int64_t m = 16 * 40 * 40;
  for (const float threshold : {-0.6F, 0.0F, 0.6F, 1.5F, 9.0F}) {
    std::vector<float> values = normal_values(what.layout.elements(), 4);
    double nonzero = 0.0;
    for (float& x : values) {
      x = x > threshold ? x : 0.0F;
      nonzero += x != 0.0F;
    }
    const double rho = nonzero / double(values.size());
    const Bytes bytes = encode_both(fixed_point(0.05F), what, make_source(what, values));
    for (std::int64_t c = 0; c < channels; ++c) {
      const ChannelFormat format = format_of(bytes, c);
      EXPECT_EQ(format.form, ChannelForm::zero_value);
      EXPECT_EQ(format.bits, format_of(bytes, 0).bits);
      EXPECT_LT(rho, 1.0 - 1.0 / format.bits);
    }
    const double expected = 1.0 + rho * format_of(bytes, 0).bits;
    const double tables = 40.0 / double(m) + 8.0 * 32.0 / double(what.layout.elements());
    const double measured = 8.0 * double(bytes.size()) / double(what.layout.elements());
    EXPECT_GE(measured, expected + tables);
    EXPECT_LE(measured, expected + tables + 0.02);
  }
}

TEST(FixedPoint, ZeroValueCompressionIsUsedWhereItIsSmaller) {
  const std::int64_t m = 1 << 14;
  const Description what = describe(samples(1, 1, {1, 1, m}));
  std::vector<float> values(m);
  for (const bool below : {true, false}) {
    // 4 bits: equal at rho = 3 / 4.
    const std::int64_t nonzero = m * 3 / 4 + (below ? -m / 100 : m / 100);
    for (std::int64_t i = 0; i < m; ++i) {
      values[i] = i * nonzero / m != (i + 1) * nonzero / m ? float(i % 16 + 1) : 0.0F;
    }
    const Bytes source = make_source(what, values);
    const Bytes bytes = encode_both(fixed_point(1.1F), what, source);
    EXPECT_EQ(format_of(bytes, 0).bits, 4);
    EXPECT_EQ(format_of(bytes, 0).form, below ? ChannelForm::zero_value : ChannelForm::codes);
    const Bytes without = encode_both(fixed_point(1.1F, false), what, source);
    EXPECT_EQ(format_of(without, 0).form, ChannelForm::codes);
    EXPECT_EQ(without.size(), 37U + m * 4 / 8);
    if (!below) continue;
    const std::vector<float> decoded =
        values_of(what, decode(*make_codec(fixed_point(1.1F)), what, bytes));
    for (std::int64_t i = 0; i < m; ++i) {
      if (values[i] == 0.0F) {
        ASSERT_EQ(float_bits(decoded[i]), 0U);
      }
    }
  }
}

TEST(FixedPoint, RoundingIsExactOverAllDraws) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 2.0F);
  for (int bits = 2; bits <= 16; ++bits) {
    const AffineRange range = affine_range(-1.0F, 2.0F, bits);
    const float lo = float_of_bf16(range.lo);
    const float step = float_of_bf16(range.step);
    const bool wide = bits > 8;
    // affine.h: what float32 leaves of t = (x - lo) / step.
    const double tolerance = std::exp2(double(bits) - 23.0) + 0x1p-16;
    double bias = 0.0;
    const int rounds = 12;
    for (int i = 0; i < rounds; ++i) {
      const float x = i == 0 ? -1.0F : i == 1 ? 2.0F : uniform(random);
      const double t = (double(x) - lo) / step;
      double sum = 0.0;
      double squares = 0.0;
      for (std::uint32_t draw = 0; draw < 65536; ++draw) {
        const double code = wide ? affine_code_wide(x, lo, step, bits, draw)
                                 : affine_code(x, lo, affine_scale(range), bits, draw);
        ASSERT_LE(std::fabs(code - t), double(affine_error(bits))) << bits << " " << x;
        sum += code;
        squares += (code - t) * (code - t);
      }
      EXPECT_NEAR(sum / 65536.0, t, tolerance) << bits << " " << x;
      bias += sum / 65536.0 - t;
      // Variance p (1 - p) of a step squared.
      const double p = t - std::floor(t);
      EXPECT_NEAR(squares / 65536.0, p * (1.0 - p), 2.0 * tolerance) << bits << " " << x;
    }
    EXPECT_NEAR(bias / rounds, 0.0, tolerance / 2.0) << bits;
  }
}

TEST(FixedPoint, DecodedTensorsAreUnbiasedWithAVarianceOfASixth) {
  for (const float bound : {0.5F, 0.01F, 0.0005F}) {
    const Description what = describe(samples(4, 3, {1, 80, 80}));
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(what.layout.elements());
    for (float& x : values) x = uniform(random);
    const Bytes source = make_source(what, values);
    const auto codec = make_codec(fixed_point(bound));
    const Bytes bytes = encode(*codec, what, source, {.seed = 1, .entry = 2, .step = 3});
    const std::vector<float> decoded = values_of(what, decode(*codec, what, bytes));
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double step =
          float_of_bf16(format_of(bytes, channel_of(what.layout, std::int64_t(k))).range.step);
      const double e = (double(decoded[k]) - double(values[k])) / step;
      sum += e;
      squares += e * e;
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_LT(std::fabs(sum / n), 5.0 * std::sqrt(squares / n / n));
    EXPECT_NEAR(squares / n, 1.0 / 6.0, 0.02 / 6.0) << bound;
  }
}

/// A bound for each channel that asks for about `bits` bits of values of unit scale.
std::vector<float> bounds_for(std::int64_t channels, int bits, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(0.7F, 1.4F);
  std::vector<float> bounds(channels);
  for (float& b : bounds) b = uniform(random) * 6.0F / static_cast<float>((1 << bits) - 1);
  return bounds;
}

TEST(FixedPoint, EveryElementIsWithinTheBound) {
  std::mt19937 random(6);
  std::array<int, 17> seen = {};
  for (const ElementType type : kFloats) {
    for (int bits = 2; bits <= 17; ++bits) {
      for (const float offset : {0.0F, 3.0F, 4096.0F}) {
        Description what = describe(samples(3, 5, {1, 30, 30}), type);
        std::vector<float> values = normal_values(what.layout.elements(), random());
        for (std::size_t k = 0; k < values.size(); ++k) {
          values[k] += offset;
          if (offset == 3.0F && k % 3 == 0) values[k] = 0.0F;
        }
        const Bytes source = make_source(what, values);
        values = values_of(what, source);
        const std::vector<float> bounds = bounds_for(5, bits, random);
        what.channel_bound = bounds.data();
        const auto codec = make_codec(fixed_point(1.0F));
        const Bytes bytes =
            encode(*codec, what, source, {.seed = static_cast<std::uint32_t>(bits)});
        for (std::int64_t c = 0; c < 5; ++c) ++seen[format_of(bytes, c).bits];
        const std::vector<float> decoded = values_of(what, decode(*codec, what, bytes));
        for (std::size_t k = 0; k < values.size(); ++k) {
          const double error = std::fabs(double(values[k]) - double(decoded[k]));
          ASSERT_LE(error, double(bounds[channel_of(what.layout, std::int64_t(k))]))
              << int(type) << " " << bits << " " << offset << " " << values[k];
        }
      }
    }
  }
  EXPECT_EQ(seen[1], 0);
  for (const int bits : {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
    EXPECT_GT(seen[bits], 0) << bits;
  }
}

// The grid of a 16-bit type is where holds_bound's reasoning matters: every value of it between two
// ends, with every code that rounding may choose.
TEST(FixedPoint, SixteenBitTypesStayWithinTheBoundOnTheirWholeGrid) {
  int tight = 0;
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    for (const auto& [min, max] :
         {std::pair{0.0F, 6.0F}, {-3.0F, 5.9F}, {1.0F, 1.5F}, {-0.01F, 700.0F}, {1e-6F, 3e-4F}}) {
      for (float bound = (max - min) / 3.0F; bound > (max - min) / 8000.0F; bound *= 0.87F) {
        const ChannelFormat format = fit_channel(min, max, true, bound, type);
        if (format.bits == 0) continue;
        const float lo = float_of_bf16(format.range.lo);
        const float step = float_of_bf16(format.range.step);
        float worst = 0.0F;
        for (std::uint32_t bits = 0; bits < 65536; ++bits) {
          const float x = value_of(type, bits);
          if (!(x >= min && x <= max)) continue;
          for (const std::uint32_t draw : {0U, 65535U}) {
            const std::uint32_t code =
                format.bits <= 8 ? affine_code(x, lo, affine_scale(format.range), format.bits, draw)
                                 : affine_code_wide(x, lo, step, format.bits, draw);
            const float decoded = value_of(type, bits_of(type, affine_value(lo, step, code)));
            const float error = std::fabs(x - decoded);
            ASSERT_LE(error, bound) << int(type) << " " << min << " " << max << " " << x;
            worst = std::max(worst, error);
          }
        }
        if (worst > 0.8F * bound) ++tight;
      }
    }
  }
  EXPECT_GT(tight, 20);
}

TEST(FixedPoint, ChannelsThatCodesCannotHoldAreRaw) {
  const std::array<float, 4> strange = {kNan, kInfinity, -kInfinity, 0x1p81F};
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
    for (const PlaneLayout& layout :
         {samples(3, 6, {1, 20, 20}), features(1200, 6), channels_last(3, 6, {1, 20, 20})}) {
      const Description what = describe(layout, type);
      std::vector<float> values = normal_values(layout.elements(), 7);
      Bytes source = make_source(what, values);
      for (std::int64_t c = 0; c < 4; ++c) {
        const std::int64_t k = (layout.inner + c) * layout.plane_size();
        set_element(what, source, k, strange[c]);
        if (c == 0) {  // a NaN with a payload
          reference::store_bits(source.data(), reference::offset_of(layout, k), element_size(type),
                                type == ElementType::float32 ? 0xFFC01234U : 0xFFC5U);
        }
      }
      const CodecSpec spec = fixed_point(0.05F);
      const Bytes bytes = encode_both(spec, what, source);
      for (std::int64_t c = 0; c < 6; ++c) {
        EXPECT_EQ(format_of(bytes, c).form, c < 4 ? ChannelForm::raw : ChannelForm::codes) << c;
      }
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const Bytes decoded = decode(*make_codec(spec, engine), what, bytes);
        for (std::int64_t k = 0; k < layout.elements(); ++k) {
          if (channel_of(layout, k) >= 4) continue;
          const std::int64_t at = reference::offset_of(layout, k);
          ASSERT_EQ(reference::load_bits(decoded.data(), at, element_size(type)),
                    reference::load_bits(source.data(), at, element_size(type)));
        }
      }
    }
  }
}

TEST(FixedPoint, BoundsThatAreNoBoundsMeanRaw) {
  Description what = describe(samples(2, 7, {1, 16, 16}));
  const std::array<float, 7> bounds = {kNan, kInfinity, 0.0F, -1.0F, 1e-9F, 0x1p-140F, 0.1F};
  what.channel_bound = bounds.data();
  const Bytes source = make_source(what, normal_values(what.layout.elements(), 8));
  const Bytes bytes = encode_both(fixed_point(0.1F), what, source);
  for (std::int64_t c = 0; c < 7; ++c) {
    EXPECT_EQ(format_of(bytes, c).form, c < 6 ? ChannelForm::raw : ChannelForm::codes) << c;
  }
}

TEST(FixedPoint, ConstantChannels) {
  const Description what = describe(samples(4, 4, {1, 10, 10}));
  std::vector<float> values(what.layout.elements());
  const std::array<float, 4> constant = {0.0F, 1.5F, -0.0F, 0.1F};
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    values[k] = constant[channel_of(what.layout, k)];
  }
  const CodecSpec spec = fixed_point(0.01F);
  const Bytes bytes = encode_both(spec, what, make_source(what, values));
  const std::vector<float> decoded = values_of(what, decode(*make_codec(spec), what, bytes));
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    const std::int64_t c = channel_of(what.layout, k);
    if (c == 3) {
      EXPECT_NEAR(decoded[k], 0.1F, 0.01F);
    } else {
      EXPECT_EQ(decoded[k], constant[c]);
    }
  }
  EXPECT_EQ(format_of(bytes, 0).form, ChannelForm::zero_value);
  EXPECT_EQ(format_of(bytes, 1).bits, 2);
}

TEST(FixedPoint, NothingAtAll) {
  for (const PlaneLayout& layout : {samples(0, 3, {1, 4, 4}), samples(2, 0, {1, 4, 4})}) {
    const Description what = describe(layout);
    const Bytes bytes = encode_both(fixed_point(0.1F), what, Bytes());
    EXPECT_EQ(bytes.size(), 32U + 5U * static_cast<std::size_t>(layout.inner));
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      EXPECT_TRUE(make_codec(fixed_point(0.1F), engine)
                      ->decode(what, bytes, nullptr, Reads::values, serial_for));
    }
  }
}

TEST(FixedPoint, MemoryFormatDoesNotChangeTheBytes) {
  const PlaneLayout planar = samples(3, 37, {1, 9, 11});
  const std::vector<float> values = normal_values(planar.elements(), 9);
  const CodecSpec spec = fixed_point(0.02F);
  for (const ElementType type : kFloats) {
    const Description one = describe(planar, type);
    const Description other = describe(channels_last(3, 37, {1, 9, 11}), type);
    EXPECT_EQ(encode_both(spec, one, make_source(one, values)),
              encode_both(spec, other, make_source(other, values)));
  }
}

TEST(FixedPoint, SignsAreRefused) {
  const Description what = describe(samples(1, 2, {1, 4, 4}));
  const Bytes source = make_source(what, normal_values(32, 1));
  const CodecSpec spec = fixed_point(0.1F);
  const Bytes bytes = encode_both(spec, what, source);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    EXPECT_TRUE(decode(*make_codec(spec, engine), what, bytes, Reads::sign).empty());
  }
}

TEST(FixedPoint, BoundsOutOfRangeMakeNoCodec) {
  for (const float bound : {0.0F, -0.5F, kInfinity, kNan}) {
    EXPECT_EQ(make_codec(fixed_point(bound)), nullptr) << bound;
  }
  EXPECT_NE(make_codec(fixed_point(1e-30F)), nullptr);
}

TEST(FixedPoint, DamagedBytesAreRefusedOrDecoded) {
  std::mt19937 random(10);
  Description what = describe(samples(4, 3, {1, 30, 30}));
  std::vector<float> values = normal_values(what.layout.elements(), 11);
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    if (channel_of(what.layout, k) == 0 && values[k] < 0.5F) values[k] = 0.0F;
  }
  const std::array<float, 3> bounds = {0.1F, 0.01F, 0.0F};
  what.channel_bound = bounds.data();
  const CodecSpec spec = fixed_point(0.1F);
  const Bytes good = encode_both(spec, what, make_source(what, values));
  EXPECT_EQ(format_of(good, 0).form, ChannelForm::zero_value);
  EXPECT_EQ(format_of(good, 2).form, ChannelForm::raw);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    Bytes damaged = good;
    const std::size_t end = round % 2 == 0 ? 32 + 15 + 4 : good.size();
    for (int i = 0; i < 2; ++i) damaged[random() % end] = static_cast<std::byte>(random());
    if (round % 5 == 0) damaged.resize(random() % good.size());
    damaged.shrink_to_fit();
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      refused += decode(*make_codec(spec, engine), what, damaged).empty();
    }
  }
  EXPECT_GT(refused, 600);
}

TEST(FixedPoint, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(12);
    for (int round = 0; round < 90 && !testing::Test::HasFailure(); ++round) {
      Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      switch (draw(random, 0, 5)) {
        case 0:
          what.layout = features(draw(random, 1, 900), draw(random, 1, 80));
          break;
        case 1:
          what.layout = samples(draw(random, 1, 9), draw(random, 1, 40),
                                {1, draw(random, 1, 9), draw(random, 1, 9)});
          break;
        case 2:
          what.layout = samples(draw(random, 1, 3), 2, {1, 1, draw(random, 1000, 5000)});
          break;
        case 3: {
          // Every channel's planes together.
          PlaneLayout& layout = what.layout;
          layout = samples(draw(random, 1, 9), draw(random, 1, 9), {1, draw(random, 1, 40), 8});
          layout.outer_stride = layout.plane_size();
          layout.inner_stride = layout.outer * layout.plane_size();
          break;
        }
        default:
          break;
      }
      std::vector<float> values = random_values(random, what.layout, false);
      if (draw(random, 0, 20) == 0) values[draw(random, 0, values.size() - 1)] = kNan;
      const Bytes source = make_source(what, values);
      std::vector<float> bounds(what.layout.channels());
      for (float& b : bounds) b = std::exp2(-static_cast<float>(draw(random, 0, 14)));
      if (draw(random, 0, 2) != 0) what.channel_bound = bounds.data();
      CodecSpec spec = fixed_point(std::exp2(-static_cast<float>(draw(random, 0, 14))));
      spec.zero_value = draw(random, 0, 3) != 0;
      const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
      SCOPED_TRACE(target + " " + test::describe(what, spec));
      expect_same_engines(spec, what, source, key);
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
