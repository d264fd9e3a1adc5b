// SPDX-License-Identifier: Apache-2.0
#include "codecs/layout.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

TEST(Layout, ContiguousMeansLogicalIndexIsOffset) {
  EXPECT_TRUE(PlaneLayout::rows(60, 6).is_contiguous());
  EXPECT_TRUE(contiguous(3, {2, 4, 5}).is_contiguous());
  EXPECT_FALSE(channels_last(2, 3, {1, 4, 5}).is_contiguous());
  EXPECT_TRUE(channels_last(2, 1, {1, 4, 5}).is_contiguous());
  PlaneLayout gaps = contiguous(2, {1, 1, 8});
  gaps.outer_stride = 9;
  EXPECT_FALSE(gaps.is_contiguous());
  EXPECT_TRUE(has_dense_planes(gaps));
  EXPECT_EQ(reach(gaps), 17);
}

TEST(Layout, RowsOfNothing) {
  const PlaneLayout none = PlaneLayout::rows(0, 4);
  EXPECT_EQ(none.elements(), 0);
  EXPECT_EQ(reach(none), 0);
  const Description what{.type = ElementType::float32, .layout = none, .index_extent = {1, 1, 1}};
  for (const std::string_view name : codec_names()) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec({.name = std::string(name), .error_bound = 1.0F}, engine);
      if (!codec->accepts(what)) continue;
      Bytes out(codec->encoded_bytes(what));
      EXPECT_TRUE(codec->encode(what, nullptr, out, {}, serial_for).representable) << name;
    }
  }
}

TEST(Layout, CountsBeyond32Bits) {
  const PlaneLayout large = PlaneLayout::rows(std::int64_t{6} << 30, std::int64_t{1} << 30);
  ASSERT_TRUE(is_valid(large));
  const Description what{.type = ElementType::bfloat16, .layout = large, .index_extent = {1, 1, 1}};
  EXPECT_EQ(make_codec({.name = "sign"})->encoded_bytes(what), std::size_t{6} << 27);
  const std::size_t means = std::size_t{6} << 30 >> 3 << 1;
  EXPECT_EQ(make_codec({.name = "division"})->encoded_bytes(what),
            means + 6 * 4 + (std::size_t{6} << 30 >> 2));
}

TEST(Layout, ImpossibleLayoutsAreInvalid) {
  PlaneLayout layout = contiguous(1, {1, 1, 4});
  layout.extent[0] = 0;
  EXPECT_FALSE(is_valid(layout));
  layout = contiguous(1, {1, 1, 4});
  layout.stride[2] = -1;
  EXPECT_FALSE(is_valid(layout));
  layout = contiguous(std::int64_t{1} << 40, {1, 1 << 20, 1 << 20});
  EXPECT_FALSE(is_valid(layout));
}

TEST(Registry, NamesAreSortedAndMakeCodecsOfThatName) {
  EXPECT_TRUE(std::ranges::is_sorted(codec_names()));
  EXPECT_GE(codec_names().size(), 13U);
  for (const std::string_view name : codec_names()) {
    EXPECT_EQ(make_codec({.name = std::string(name), .error_bound = 1.0F})->name(), name);
  }
  EXPECT_EQ(make_codec({.name = "zip"}), nullptr);
}

}  // namespace
}  // namespace cinch::codecs::test
