// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_sign.h"

#include <cmath>
#include <limits>
#include <typeinfo>

#include "codecs/element_bits.h"
#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kValues = {SignedValues::non_negative, SignedValues::any,
                                SignedValues::agreeing};
constexpr std::array kNames = {"group_quant", "division", "blpa", "fixed_point", "dct"};

CodecSpec spec(SignedValues values = SignedValues::non_negative,
               const std::string& name = "group_quant") {
  return {.name = name,
          .bits = 2,
          .group = 32,
          .error_bound = 0.5F,
          .with_sign = true,
          .signed_values = values};
}

/// The same codec with no signs beside.
CodecSpec alone(CodecSpec of) {
  of.with_sign = false;
  return of;
}

TEST(WithSign, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(57);
    for (int round = 0; round < rounds(150) && !testing::Test::HasFailure(); ++round) {
      const CodecSpec with = spec(kValues[round % 3], kNames[draw(random, 0, kNames.size() - 1)]);
      const Description what{.type = random_float(random, *codec_traits(with.name)),
                             .layout = random_layout(random)};
      const bool negatives = round % 3 != 0 || round % 9 == 0;
      std::vector<float> x = random_values(random, what.layout, !negatives);
      if (round % 7 == 0) x.front() = std::numeric_limits<float>::quiet_NaN();
      SCOPED_TRACE(target + " " + describe(what, with) + " values " + std::to_string(round % 3));
      expect_same_engines(with, what, make_source(what, x), {1, 2, 3});
    }
  });
}

// Numbers whose nearest float32 is 0 have a sign too.
TEST(WithSign, SignsOfFloat64AreThoseOfItsOwnValues) {
  const Description what = flat(300, ElementType::float64);
  std::vector<double> x(300, 0.25);
  for (std::size_t i = 0; i < x.size(); i += 7) x[i] = i % 2 == 0 ? 0x1p-1074 : 1e-200;
  for (std::size_t i = 1; i < x.size(); i += 7) x[i] = i % 2 == 0 ? 0.0 : -0.0;
  for (const SignedValues values : kValues) {
    if (values != SignedValues::non_negative) {
      for (std::size_t i = 2; i < x.size(); i += 7) x[i] = i % 2 == 0 ? -0x1p-1074 : -3.0;
    }
    Bytes source(source_bytes(what));
    std::memcpy(source.data(), x.data(), source.size());
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec(values), engine);
      const Bytes bytes = encode(*codec, what, source);
      ASSERT_FALSE(bytes.empty());
      const Bytes signs = decode(*codec, what, bytes, Reads::sign);
      const Bytes decoded = decode(*codec, what, bytes);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(load<double>(signs, 8 * i), x[i] > 0 ? 1.0 : 0.0) << i;
        const auto y = load<double>(decoded, 8 * i);
        if (values == SignedValues::agreeing) {
          ASSERT_EQ(y > 0, x[i] > 0) << i;
        } else if (values == SignedValues::non_negative && !(x[i] > 0)) {
          ASSERT_EQ(load<std::uint64_t>(decoded, 8 * i), 0U) << i;
        }
      }
    }
  }
}

TEST(WithSign, ValuesOfAnyDataAreThoseOfTheCodec) {
  Random random(59);
  for (const auto* name : kNames) {
    const CodecSpec with = spec(SignedValues::any, name);
    const Description what{.type = ElementType::float32, .layout = contiguous(3, {1, 19, 17})};
    std::vector<float> x(what.layout.elements());
    for (float& v : x) v = static_cast<float>(draw(random, -1000, 1000)) * 0.002F;
    const Bytes source = make_source(what, x);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(with, engine);
      const auto inner = make_codec(alone(with), engine);
      const Bytes bytes = encode(*codec, what, source);
      const Bytes of_inner = encode(*inner, what, source);
      EXPECT_EQ(bytes.size(), of_inner.size() + beside_mask_bytes(what.layout)) << name;
      EXPECT_EQ(decode(*codec, what, bytes), decode(*inner, what, of_inner)) << name;
      const std::vector<float> signs = values_of(what, decode(*codec, what, bytes, Reads::sign));
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(signs[i], x[i] > 0.0F ? 1.0F : 0.0F);
    }
  }
}

TEST(WithSign, ValuesThatAgreeHaveTheExactSign) {
  Random random(60);
  for (const ElementType type : kFloats) {
    for (const auto* name : kNames) {
      const CodecSpec with = spec(SignedValues::agreeing, name);
      const Description what{.type = type, .layout = channels_last(2, 5, {1, 19, 17})};
      std::vector<float> x(what.layout.elements());
      for (float& v : x) v = static_cast<float>(draw(random, -1000, 1000)) * 0.002F;
      const Bytes source = make_source(what, x);
      x = values_of(what, source);
      const float least = value_of(type, bits_of_least(type));
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const auto codec = make_codec(with, engine);
        const auto inner = make_codec(alone(with), engine);
        const Bytes bytes = encode(*codec, what, source);
        const std::vector<float> values = values_of(what, decode(*codec, what, bytes));
        const std::vector<float> inners =
            values_of(what, decode(*inner, what, encode(*inner, what, source)));
        int changed = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool positive = x[i] > 0.0F;
          const bool agrees = (inners[i] > 0.0F) == positive;
          const float wanted = agrees ? inners[i] : positive ? least : -least;
          ASSERT_EQ(float_bits(values[i]), float_bits(wanted)) << name << " " << x[i];
          ASSERT_EQ(values[i] > 0.0F, positive) << name << " " << x[i];
          changed += agrees ? 0 : 1;
        }
        // BLPA's bins begin at 0, so their middles have the sign.
        EXPECT_EQ(changed > 0, std::string_view(name) != "blpa") << name;
      }
    }
  }
}

// One bit for -1 to 1, a step of 2: zero is half a step from either code.
TEST(WithSign, ValuesThatAgreeAreBiasedByAQuarterOfAStepAtMost) {
  CodecSpec with = spec(SignedValues::agreeing);
  with.bits = 1;
  with.group = 1 << 16;
  const Description what = flat(1 << 16, ElementType::float32);
  const auto codec = make_codec(with);
  for (const auto& [x, bias] : {std::pair{-1e-6F, -0.5}, {1e-6F, 0.5}, {0.5F, 0.25}, {1.0F, 0.0}}) {
    std::vector<float> values(1 << 16, x);
    values[0] = -1.0F;
    values[1] = 1.0F;
    const Bytes bytes = encode(*codec, what, make_source(what, values));
    double sum = 0.0;
    for (const float y : values_of(what, decode(*codec, what, bytes))) sum += y;
    EXPECT_NEAR(sum / (1 << 16) - x, bias, 0.01) << x;
  }
}

TEST(WithSign, ZerosAndSignsAreExact) {
  const Description what{.type = ElementType::bfloat16, .layout = channels_last(2, 5, {1, 9, 11})};
  Random random(58);
  std::vector<float> x = random_values(random, what.layout, false);
  for (float& v : x) v = std::max(v, -0.0F);
  const Bytes source = make_source(what, x);
  x = values_of(what, source);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec(), engine);
    const Bytes bytes = encode(*codec, what, source);
    ASSERT_FALSE(bytes.empty());
    const std::vector<float> values = values_of(what, decode(*codec, what, bytes));
    const std::vector<float> signs = values_of(what, decode(*codec, what, bytes, Reads::sign));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(signs[i], x[i] > 0.0F ? 1.0F : 0.0F);
      if (!(x[i] > 0.0F)) {
        ASSERT_EQ(float_bits(values[i]), 0U);
      }
    }
  }
}

TEST(WithSign, NegativeElementsAreNotRepresentableIfRuledOut) {
  const Description what{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 300})};
  for (const float bad : {-1.0F, -std::numeric_limits<float>::denorm_min(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t where : {0, 63, 299}) {
      std::vector<float> x(300, 1.0F);
      x[where] = bad;
      const Bytes source = make_source(what, x);
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        EXPECT_TRUE(encode(*make_codec(spec(), engine), what, source).empty());
        for (const SignedValues values : {SignedValues::any, SignedValues::agreeing}) {
          const auto codec = make_codec(spec(values), engine);
          EXPECT_EQ(encode(*codec, what, source).empty(), std::isinf(bad));
        }
      }
    }
  }
}

TEST(WithSign, WhatCouldNotBeHeldStaysNan) {
  const Description what{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 300})};
  std::vector<float> x(300, 0.0F);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  x[6] = 1.0F;
  for (const SignedValues values : kValues) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec(values), engine);
      Bytes bytes(codec->encoded_bytes(what));
      const Bytes source = make_source(what, x);
      const Encoded encoded = codec->encode(what, source.data(), bytes, {}, serial_for);
      EXPECT_FALSE(encoded.representable);
      const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
      for (int i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(y[i]), i < 32) << i;
    }
  }
}

TEST(WithSign, CodecsThatHoldSignsOrAreExactAreLeftAlone) {
  for (const std::string_view name : codec_names()) {
    for (const SignedValues values : kValues) {
      const CodecSpec with = spec(values, std::string(name));
      const auto codec = make_codec(with);
      const auto without = make_codec(alone(with));
      ASSERT_NE(codec, nullptr) << name;
      const Codec &a = *codec, &b = *without;
      const auto traits = *codec_traits(name);
      const bool is_left_alone = traits.fidelity != Fidelity::approximate || traits.holds_sides ||
                                 (traits.holds_signs && values == SignedValues::non_negative);
      EXPECT_EQ(typeid(a) == typeid(b), is_left_alone) << name;
    }
  }
}

}  // namespace
}  // namespace cinch::codecs::test
