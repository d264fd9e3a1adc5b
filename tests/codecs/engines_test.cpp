// SPDX-License-Identifier: Apache-2.0
// Every engine, target and split of the work must write the reference's bytes.
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

TEST(Engines, DivisionWritesTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(7);
    for (int round = 0; round < rounds(200) && !testing::Test::HasFailure(); ++round) {
      CodecSpec spec{.name = "division",
                     .bits = static_cast<int>(draw(random, 1, 8)),
                     .block = static_cast<int>(draw(random, 1, 20)),
                     .edge_ceil = draw(random, 0, 1) != 0,
                     .with_sign = draw(random, 0, 2) == 0};
      if (draw(random, 0, 1) != 0) spec.block = 8;
      if (draw(random, 0, 2) == 0) draw_residual_group(random, spec);
      const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      const bool negatives = !spec.with_sign || draw(random, 0, 5) == 0;
      std::vector<float> values = random_values(random, what.layout, !negatives);
      if (draw(random, 0, 3) == 0) spoil(random, values);
      const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
      SCOPED_TRACE(target + " " + describe(what, spec));
      expect_same_engines(spec, what, make_source(what, values), key);
    }
  });
}

// Larger than what is drawn, packed or gathered at a time.
TEST(Engines, DivisionOfLargePlanesWritesTheReferencesBytes) {
  const std::array layouts = {contiguous(3, {1, 1, 5003}),       contiguous(2, {1, 61, 131}),
                              contiguous(2, {3, 40, 50}),        contiguous(700, {1, 7, 7}),
                              contiguous(90, {1, 14, 14}),       contiguous(1, {1, 1, 1}),
                              channels_last(2, 37, {1, 32, 32}), channels_last(1, 70, {1, 7, 7}),
                              channels_last(1, 100, {1, 20, 3})};
  std::vector<std::pair<PlaneLayout, bool>> cases;
  for (const PlaneLayout& layout : layouts) {
    for (const bool in_groups : {false, true}) cases.emplace_back(layout, in_groups);
  }
  for_each_target([&](const std::string& target) {
    Random random(12);
    for (const auto& [layout, in_groups] : cases) {
      for (int round = 0; round < 3 && !testing::Test::HasFailure(); ++round) {
        CodecSpec spec{.name = "division",
                       .bits = static_cast<int>(draw(random, 1, 8)),
                       .block = round == 0 ? static_cast<int>(draw(random, 1, 70)) : 8,
                       .edge_ceil = draw(random, 0, 3) != 0,
                       .with_sign = round == 1};
        if (in_groups) draw_residual_group(random, spec);
        const Description what{.type = kFloats[round], .layout = layout};
        std::vector<float> values = random_values(random, layout, spec.with_sign);
        if (round == 2) spoil(random, values);
        SCOPED_TRACE(target + " " + describe(what, spec));
        expect_same_engines(spec, what, make_source(what, values), {1, 2, random()});
      }
    }
  });
}

TEST(Engines, MasksWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(8);
    for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
      Description what{.type = random_float(random, *codec_traits("sign")),
                       .layout = random_layout(random)};
      const Bytes floats = make_source(what, random_values(random, what.layout, false));
      SCOPED_TRACE(target + " " + describe(what, {.name = "sign"}));
      expect_same_engines({.name = "sign"}, what, floats, {});

      what.type = kTypes[draw(random, 0, kTypes.size() - 1)];
      const Bytes source = random_patterns(random, what);
      expect_same_engines({.name = "raw"}, what, source, {});
      if (what.type != ElementType::other) {
        expect_same_engines({.name = "two_valued"}, what, source, {});
      }
    }
  });
}

TEST(Engines, IntervalsWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(10);
    for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
      const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      std::vector<float> values = random_values(random, what.layout, false);
      CodecSpec spec{.name = "interval"};
      if (round % 2 != 0) {
        spec.lower = values[draw(random, 0, what.layout.elements() - 1)];
        spec.upper = spec.lower + std::abs(values.front()) + 0.5F;
        spec.closed = round % 4 == 1;
      }
      if (round % 10 == 0) values.back() = std::numeric_limits<float>::quiet_NaN();
      SCOPED_TRACE(target + " " + describe(what, spec));
      expect_same_engines(spec, what, make_source(what, values), {});
    }
  });
}

TEST(Engines, NarrowIntegersWriteTheReferencesBytes) {
  constexpr std::array kIntegers = {ElementType::uint8, ElementType::int16, ElementType::int32,
                                    ElementType::int64};
  for_each_target([&](const std::string& target) {
    std::mt19937_64 numbers(11);
    Random random(11);
    for (int round = 0; round < rounds(80) && !testing::Test::HasFailure(); ++round) {
      const Description what{.type = kIntegers[round % 4], .layout = random_layout(random)};
      const int most = 8 * static_cast<int>(element_size(what.type));
      const std::int64_t bits = draw(random, 0, std::min(most, 33));
      const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
      // Distances from anywhere, so that the range may wrap around in the type.
      const std::uint64_t origin = numbers();
      Bytes source(source_bytes(what), std::byte{0xA5});
      for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
        reference::store_bits(source.data(), reference::offset_of(what.layout, k),
                              element_size(what.type), origin + (numbers() & mask));
      }
      SCOPED_TRACE(target + " bits " + std::to_string(bits) + " " +
                   describe(what, {.name = "narrow"}));
      expect_same_engines({.name = "narrow"}, what, source, {});
    }
  });
}

TEST(Engines, WindowIndicesWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(9);
    for (int round = 0; round < rounds(80) && !testing::Test::HasFailure(); ++round) {
      Description what{.type = ElementType::int64, .layout = random_layout(random)};
      const Bytes source = random_window_indices(random, what);
      SCOPED_TRACE(target + " " + describe(what, {.name = "window_index"}));
      expect_same_engines({.name = "window_index"}, what, source, {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
