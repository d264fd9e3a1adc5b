// SPDX-License-Identifier: Apache-2.0
#include "codecs/with_sign.h"

#include <cmath>
#include <limits>

#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

CodecSpec spec() {
  return {.name = "group_quant", .bits = 2, .group = 32, .with_sign = true};
}

TEST(WithSign, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(57);
    for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
      const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      const Bytes source = make_source(what, random_values(random, what.layout, round % 9 != 0));
      SCOPED_TRACE(target + " " + describe(what, spec()));
      expect_same_engines(spec(), what, source, {1, 2, 3});
    }
  });
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

TEST(WithSign, NegativeElementsAreNotRepresentable) {
  const Description what{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 300})};
  for (const float bad : {-1.0F, -std::numeric_limits<float>::denorm_min(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t where : {0, 63, 299}) {
      std::vector<float> x(300, 1.0F);
      x[where] = bad;
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        EXPECT_TRUE(encode(*make_codec(spec(), engine), what, make_source(what, x)).empty());
      }
    }
  }
}

TEST(WithSign, WhatCouldNotBeHeldStaysNan) {
  const Description what{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 300})};
  std::vector<float> x(300, 0.0F);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec(), engine);
    Bytes bytes(codec->encoded_bytes(what));
    const Bytes source = make_source(what, x);
    const Encoded encoded = codec->encode(what, source.data(), bytes, {}, serial_for);
    EXPECT_FALSE(encoded.representable);
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    for (int i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(y[i]), i < 32) << i;
  }
}

TEST(WithSign, CodecsWhoseSignsAreExactAnywayAreLeftAlone) {
  for (const std::string_view name : codec_names()) {
    CodecSpec plain{.name = std::string(name), .error_bound = 0.1F};
    CodecSpec with = plain;
    with.with_sign = true;
    EXPECT_NE(make_codec(with), nullptr) << name;
  }
}

}  // namespace
}  // namespace cinch::codecs::test
