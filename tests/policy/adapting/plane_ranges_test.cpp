// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/plane_ranges.h"

#include <cmath>

#include <gtest/gtest.h>

#include "codecs/float_formats.h"

namespace cinch::policy {
namespace {

TEST(PlaneRanges, SumsSquaredRangesOfGroups) {
  const std::vector<float> x = {0, .5F, 1.25F, 3, -1, -.25F, .5F, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  codecs::Description what;
  what.layout = codecs::PlaneLayout::rows(16, 8);
  EXPECT_EQ(plane_ranges(what, x.data(), 8), (std::vector<float>{16, 0}));
  EXPECT_EQ(plane_ranges(what, x.data(), 4), (std::vector<float>{9 + 9, 0}));
}

TEST(PlaneRanges, TailsAndTypesAndStrides) {
  std::vector<float> x(2 * 3 * 7);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0F, static_cast<int>(i % 11)) * 0.25F;
  codecs::Description what;
  what.layout = codecs::PlaneLayout::rows(42, 21);
  const auto expected = plane_ranges(what, x.data(), 8);
  std::vector<std::uint16_t> half;
  for (const float v : x) half.push_back(codecs::bf16_nearest(v));
  what.type = codecs::ElementType::bfloat16;
  EXPECT_EQ(plane_ranges(what, half.data(), 8), expected) << "powers of two are bfloat16";
  // Two planes of 3 x 7 that lie in memory with the columns outside.
  what.type = codecs::ElementType::float32;
  what.layout.extent = {1, 3, 7};
  what.layout.stride = {0, 1, 3};
  std::vector<float> turned(x.size());
  for (int p = 0; p < 2; ++p) {
    for (int h = 0; h < 3; ++h) {
      for (int w = 0; w < 7; ++w) turned[p * 21 + w * 3 + h] = x[p * 21 + h * 7 + w];
    }
  }
  EXPECT_EQ(plane_ranges(what, turned.data(), 8), expected);
}

TEST(PlaneRanges, NotFiniteIsZero) {
  const std::vector<float> x = {1, INFINITY, 2, 3};
  codecs::Description what;
  what.layout = codecs::PlaneLayout::rows(4, 4);
  EXPECT_EQ(plane_ranges(what, x.data(), 8), std::vector<float>{0});
}

}  // namespace
}  // namespace cinch::policy
