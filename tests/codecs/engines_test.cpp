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
      const Bytes source = make_source(what, random_values(random, what.layout, spec.with_sign));
      const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
      SCOPED_TRACE(target + " " + describe(what, spec));
      expect_same_engines(spec, what, source, key);
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
      const Bytes source = random_patterns(random, what);
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
      const Bytes source = random_window_indices(random, what);
      SCOPED_TRACE(target + " " + describe(what, {.name = "window_index"}));
      expect_same_engines({.name = "window_index"}, what, source, {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
