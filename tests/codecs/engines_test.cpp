// SPDX-License-Identifier: Apache-2.0
// Every engine, target and split of the work must write the reference's bytes.
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

TEST(Engines, DivisionWritesTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(7);
    for (int round = 0; round < 200 && !testing::Test::HasFailure(); ++round) {
      CodecSpec spec{.name = "division",
                     .bits = static_cast<int>(draw(random, 1, 8)),
                     .block = static_cast<int>(draw(random, 1, 20)),
                     .edge_ceil = draw(random, 0, 1) != 0,
                     .with_sign = draw(random, 0, 2) == 0};
      if (draw(random, 0, 1) != 0) spec.block = 8;
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
  for_each_target([&](const std::string& target) {
    Random random(12);
    for (const PlaneLayout& layout : layouts) {
      for (int round = 0; round < 3 && !testing::Test::HasFailure(); ++round) {
        const CodecSpec spec{.name = "division",
                             .bits = static_cast<int>(draw(random, 1, 8)),
                             .block = round == 0 ? static_cast<int>(draw(random, 1, 70)) : 8,
                             .edge_ceil = draw(random, 0, 3) != 0,
                             .with_sign = round == 1};
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
    for (int round = 0; round < 120 && !testing::Test::HasFailure(); ++round) {
      Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
      const Bytes floats = make_source(what, random_values(random, what.layout, false));
      SCOPED_TRACE(target + " " + describe(what, {.name = "sign"}));
      expect_same_engines({.name = "sign"}, what, floats, {});

      what.type = kTypes[draw(random, 0, 6)];
      Bytes source(source_bytes(what), std::byte{0xA5});
      const std::uint64_t patterns[3] = {random(), random(), random()};
      const std::int64_t kinds = draw(random, 0, 2);
      const std::int64_t rare = draw(random, 1, 40);
      for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
        const std::int64_t kind = draw(random, 0, rare) == 0 ? draw(random, 0, kinds) : 0;
        reference::store_bits(source.data(), reference::offset_of(what.layout, k),
                              element_size_or_byte(what.type), patterns[kind]);
      }
      expect_same_engines({.name = "raw"}, what, source, {});
      if (what.type != ElementType::other) {
        expect_same_engines({.name = "two_valued"}, what, source, {});
      }
    }
  });
}

TEST(Engines, WindowIndicesWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(9);
    for (int round = 0; round < 80 && !testing::Test::HasFailure(); ++round) {
      Description what{.type = ElementType::int64, .layout = random_layout(random)};
      const std::array<std::int64_t, 3> stride = {draw(random, 1, 3), draw(random, 1, 3),
                                                  draw(random, 1, 3)};
      const std::array<std::int64_t, 3> window = {draw(random, 1, 3), draw(random, 1, 5),
                                                  draw(random, 1, 6)};
      for (int a = 0; a < 3; ++a) {
        what.index_extent[a] = (what.layout.extent[a] - 1) * stride[a] + window[a];
      }
      Bytes source(source_bytes(what), std::byte{0xA5});
      const bool damaged = draw(random, 0, 9) == 0;
      for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
        std::int64_t rest = k % what.layout.plane_size();
        std::array<std::int64_t, 3> at;
        for (int a = 2; a >= 0; --a) {
          at[a] = rest % what.layout.extent[a] * stride[a] + draw(random, 0, window[a] - 1);
          rest /= what.layout.extent[a];
        }
        std::int64_t index = (at[0] * what.index_extent[1] + at[1]) * what.index_extent[2] + at[2];
        if (damaged && draw(random, 0, 300) == 0) {
          constexpr std::array<std::int64_t, 4> kStrange = {
              -1, std::numeric_limits<std::int64_t>::min(),
              std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 32};
          index = kStrange[draw(random, 0, 3)];
        }
        reference::store_bits(source.data(), reference::offset_of(what.layout, k), 8,
                              static_cast<std::uint64_t>(index));
      }
      SCOPED_TRACE(target + " " + describe(what, {.name = "window_index"}));
      expect_same_engines({.name = "window_index"}, what, source, {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
