// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "codecs/formats/group_quant.h"
#include "codecs/layout.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

/// Groups that are one feature of some rows.
namespace cinch::codecs::test {
namespace {

/// `samples` of `rows` rows of `features`, one behind the other.
PlaneLayout features_of(std::int64_t samples, std::int64_t rows, std::int64_t features) {
  return samples_last(samples, {features, 1, rows});
}

TEST(GroupFeatures, EnginesWriteTheSameBytes) {
  constexpr std::array<int, 8> kRows = {8, 16, 24, 40, 128, 256, 264, 520};
  for_each_target([&](const std::string& target) {
    Random random(23);
    for (int round = 0; round < rounds(200) && !testing::Test::HasFailure(); ++round) {
      const int rows = kRows[draw(random, 0, kRows.size() - 1)];
      CodecSpec spec = {.name = "group_quant",
                        .bits = static_cast<int>(draw(random, 1, 8)),
                        .group = rows,
                        .subtractive_dither = round % 3 != 0};
      if (round % 5 == 0) spec.floor = -0.5F;
      spec.roots = spec.subtractive_dither && round % 5 == 1;
      // Whole cache lines, and not.
      const std::int64_t features = round % 2 == 0 ? 16 * draw(random, 1, 6) : draw(random, 2, 90);
      Description what{.type = random_float(random, *codec_traits(spec.name)),
                       .layout = features_of(draw(random, 1, 3), rows, features)};
      ASSERT_TRUE(interleaves_groups(what.layout, spec.group));
      std::vector<std::uint8_t> bits(what.layout.planes());
      if (draw(random, 0, 2) == 0) {
        for (std::uint8_t& b : bits) b = static_cast<std::uint8_t>(draw(random, 1, 8));
        what.plane_bits = bits;
      }
      Bytes source = make_source(what, random_values(random, what.layout, false));
      source = with_low_bits(random, what, std::move(source));
      if (round % 4 == 0) put_not_finite(random, what, source);
      SCOPED_TRACE(target + " " + describe(what, spec));
      expect_same_engines(spec, what, source, {static_cast<std::uint32_t>(random()), 3, random()});
    }
  });
}

TEST(GroupFeatures, AnEpilogueGetsEveryElementOnceItIsDecoded) {
  const Description what{.type = ElementType::float32, .layout = features_of(3, 72, 50)};
  const auto codec = make_codec(
      {.name = "group_quant", .bits = 4, .group = 72, .subtractive_dither = true}, Engine::cpu);
  const Bytes bytes = encode(*codec, what, normal_floats(what, false));
  std::vector<float> expected(what.layout.elements());
  ASSERT_TRUE(codec->decode(what, bytes, expected.data(), Reads::values, serial_for));
  for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
    std::vector<float> x(expected.size()), seen(expected.size());
    const auto apply = [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin % 8, 0);
      for (std::int64_t k = begin; k < end; ++k) seen[k] += x[k];
    };
    ASSERT_TRUE(codec->decode_with(what, bytes, x.data(), Epilogue(apply), parallel));
    EXPECT_EQ(seen, expected);
  }
}

TEST(GroupFeatures, LargeTensorsAreWrittenPastTheCaches) {
  // More than what decoding keeps in caches, at whole cache lines and not.
  for (const std::int64_t features : {64, 63}) {
    const Description what{.type = ElementType::float32, .layout = features_of(300, 256, features)};
    const auto codec = make_codec({.name = "group_quant", .bits = 2, .group = 256}, Engine::cpu);
    std::vector<float> x(what.layout.elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>((i / static_cast<std::size_t>(features)) % 4);
    }
    Bytes source(x.size() * sizeof(float));
    std::copy_n(reinterpret_cast<const std::byte*>(x.data()), source.size(), source.data());
    const Bytes bytes = encode(*codec, what, source);
    EXPECT_TRUE(decodes_at_any_address(*codec, what, bytes, x));
  }
}

}  // namespace
}  // namespace cinch::codecs::test
