// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_bounds.h"

#include <cmath>
#include <limits>

#include "codecs/formats/masks/interval.h"
#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array kNames = {"group_quant", "division", "blpa", "fixed_point", "two_sided"};

struct Interval {
  float lower, upper;
  bool closed;

  /// -1 below it, 0 inside, 1 above.
  int side(float x) const {
    if (is_inside(x, {lower, upper, closed})) return 0;
    return x <= lower ? -1 : 1;
  }
};
constexpr std::array kIntervals = {
    Interval{-0.5F, 1.25F, false},   Interval{-0.5F, 1.25F, true},
    Interval{0.3F, kInfinity, true}, Interval{-kInfinity, 0.1F, true},
    Interval{0.0F, 0.0F, true},      Interval{0.0F, 6.0F, false},
    Interval{-1e30F, 1e30F, true},   Interval{1e-41F, 1e-6F, true},
    Interval{-0.0F, 0.5F, true}};

CodecSpec spec(const Interval& interval, const std::string& name = "group_quant") {
  return {.name = name,
          .bits = 2,
          .group = 32,
          .error_bound = 0.5F,
          .lower = interval.lower,
          .upper = interval.upper,
          .closed = interval.closed,
          .with_bounds = true};
}

/// The same codec with no bounds beside.
CodecSpec alone(CodecSpec of) {
  of.with_bounds = false;
  return of;
}

/// Values near bounds, and on them.
std::vector<float> values_around(Random& random, std::int64_t count, const Interval& interval) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = static_cast<float>(draw(random, -1000, 1000)) * 0.002F;
  for (std::size_t i = 0; i < x.size(); i += 5) {
    const float bound = i % 2 == 0 ? interval.lower : interval.upper;
    if (std::abs(bound) < 1e3F) x[i] = i % 3 == 0 ? bound : std::nextafter(bound, x[i]);
  }
  return x;
}

TEST(WithBounds, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(61);
    for (int round = 0; round < rounds(150) && !testing::Test::HasFailure(); ++round) {
      const Interval& interval = kIntervals[round % kIntervals.size()];
      CodecSpec with = spec(interval, kNames[draw(random, 0, kNames.size() - 1)]);
      with.with_sign = round % 4 == 0;
      with.signed_values = SignedValues::agreeing;
      const Description what{.type = kFloats[round % kFloats.size()],
                             .layout = random_layout(random)};
      std::vector<float> x = values_around(random, what.layout.elements(), interval);
      if (with.name == "blpa" && with.with_sign) with.with_sign = false;
      if (round % 7 == 0 && !x.empty()) x.front() = std::numeric_limits<float>::quiet_NaN();
      SCOPED_TRACE(target + " " + describe(what, with));
      expect_same_engines(with, what, make_source(what, x), {1, 2, 3});
    }
  });
}

TEST(WithBounds, ValuesAreTheCodecsButForThoseOnTheOtherSide) {
  Random random(62);
  for (const ElementType type : kFloats) {
    for (const Interval& interval : kIntervals) {
      for (const auto* name : kNames) {
        const CodecSpec with = spec(interval, name);
        const Description what{.type = type, .layout = channels_last(2, 5, {1, 19, 17})};
        std::vector<float> x = values_around(random, what.layout.elements(), interval);
        const Bytes source = make_source(what, x);
        x = values_of(what, source);
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          SCOPED_TRACE(describe(what, with) + " from " + std::to_string(interval.lower));
          const auto codec = make_codec(with, engine);
          const auto inner = make_codec(alone(with), engine);
          const Bytes bytes = encode(*codec, what, source);
          const Bytes of_inner = encode(*inner, what, source);
          ASSERT_EQ(bytes.size(),
                    of_inner.size() + bounds_of(with).size() * beside_mask_bytes(what.layout));
          const std::vector<float> values = values_of(what, decode(*codec, what, bytes));
          const std::vector<float> inners = values_of(what, decode(*inner, what, of_inner));
          EXPECT_EQ(decode(*codec, what, bytes, Reads::interval), decode(*codec, what, bytes));
          int changed = 0;
          for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(interval.side(values[i]), interval.side(x[i])) << x[i];
            // Nothing moves that lies well, and what moves comes no farther from the element.
            if (interval.side(inners[i]) == interval.side(x[i])) {
              ASSERT_EQ(inners[i], values[i]);
            } else {
              ASSERT_LE(std::abs(values[i] - x[i]), std::abs(inners[i] - x[i]) * 1.001F + 1e-6F);
              ++changed;
            }
          }
          if (interval.upper == 1.25F && std::string_view(name) == "group_quant") {
            EXPECT_GT(changed, 0);
          }
        }
      }
    }
  }
}

// Two clamps of one storage may have one bound in common, or one each.
TEST(WithBounds, BothSidesOfBothBoundsAreExact) {
  Random random(63);
  const Description what = flat(4096, ElementType::float32);
  std::vector<float> x(4096);
  for (float& v : x) v = static_cast<float>(draw(random, -1000, 1000)) * 0.02F;
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec({-7.0F, 7.0F, true}), engine);
    const std::vector<float> y =
        values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i] <= 7.0F, y[i] <= 7.0F) << x[i];
      ASSERT_EQ(x[i] >= -7.0F, y[i] >= -7.0F) << x[i];
    }
  }
}

TEST(WithBounds, WhatCouldNotBeHeldStaysNan) {
  const Description what = flat(300, ElementType::bfloat16);
  std::vector<float> x(300, 0.25F);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec({0.0F, 1.0F, true}), engine);
    Bytes bytes(codec->encoded_bytes(what));
    const Bytes source = make_source(what, x);
    EXPECT_FALSE(codec->encode(what, source.data(), bytes, {}, serial_for).representable);
    const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
    for (int i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(y[i]), i < 32) << i;
  }
}

TEST(WithBounds, IsForApproximatedValuesAndAnInterval) {
  for (const std::string_view name : codec_names()) {
    const CodecSpec with = spec(kIntervals[0], std::string(name));
    const auto fidelity = codec_traits(name)->fidelity;
    EXPECT_EQ(spec_beside_bounds(with).has_value(), fidelity != Fidelity::exact) << name;
    EXPECT_NE(make_codec(with), nullptr) << name;
  }
  EXPECT_EQ(make_codec(spec({2.0F, 1.0F, true})), nullptr);
  EXPECT_EQ(make_codec(spec({1.0F, 1.0F, false})), nullptr);
  const auto codec = make_codec(spec({0.0F, 1.0F, true}));
  EXPECT_FALSE(codec->accepts(flat(8, ElementType::float64)));
}

}  // namespace
}  // namespace cinch::codecs::test
