// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/codecs/random_cases.h"

/// Random cases of `two_sided`.
namespace cinch::codecs::test {

/// A spec, a description with the arrays that it points to, and a source.
struct SidedCase {
  CodecSpec spec;
  Description what;
  Bytes source;
  RandomKey key;
  std::vector<float> factor, summand, center, spread;

  SidedCase(Random& random, bool spoiled) {
    constexpr std::array kGroups = {8, 16, 24, 64, 256, 256, 256, 1000, 3000};
    spec = {.name = "two_sided",
            .bits = static_cast<int>(draw(random, 2, 8)),
            .group = kGroups[draw(random, 0, kGroups.size() - 1)],
            .subtractive_dither = draw(random, 0, 2) == 0};
    what = {.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    if (draw(random, 0, 3) == 0) {
      what.layout = samples_last(draw(random, 1, 3),
                                 {draw(random, 1, 40), draw(random, 1, 20), draw(random, 1, 20)});
    }
    const std::int64_t run = random_run(random);
    if (draw(random, 0, 4) != 0) make_numbers(random, run, false);
    std::vector<float> values = random_values(random, what.layout, false);
    if (spoiled) spoil(random, values);
    source = make_source(what, values);
    key = {static_cast<std::uint32_t>(random()), 3, random()};
  }
  SidedCase(const SidedCase&) = delete;
  SidedCase& operator=(const SidedCase&) = delete;

  /// Numbers by channel: all of them, or at random those that the description need not have.
  void make_numbers(Random& random, std::int64_t run, bool all) {
    std::normal_distribution<float> normal;
    factor.clear();
    summand.clear();
    center.clear();
    spread.clear();
    for (std::int64_t c = 0; c < what.layout.plane_size() / run; ++c) {
      factor.push_back(draw(random, 0, 9) == 0 ? 0.0F : normal(random));
      summand.push_back(normal(random) * 0.5F);
      center.push_back(normal(random) * 0.3F);
      spread.push_back(std::exp(normal(random)));
    }
    what.sides = {.run = run};
    const std::int64_t given = all ? 2 : draw(random, 0, 2);
    if (given != 0) {
      what.sides.factor = factor.data();
      what.sides.summand = summand.data();
    }
    if (given != 1) {
      what.sides.center = center.data();
      what.sides.spread = spread.data();
      if (!all && draw(random, 0, 9) == 0) spread.front() = 0.0F;
    }
  }

  std::string words() const {
    return describe(what, spec) + " G " + std::to_string(spec.group) + " run " +
           std::to_string(what.sides.run) + (what.sides.factor != nullptr ? " factors" : "") +
           (what.sides.center != nullptr ? " centers" : "");
  }

 private:
  /// A divisor of the plane.
  std::int64_t random_run(Random& random) const {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= what.layout.plane_size(); ++d) {
      if (what.layout.plane_size() % d == 0) divisors.push_back(d);
    }
    return divisors[draw(random, 0, std::ssize(divisors) - 1)];
  }
};

}  // namespace cinch::codecs::test
