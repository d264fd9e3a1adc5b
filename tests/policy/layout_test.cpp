// SPDX-License-Identifier: Apache-2.0
#include "policy/layout.h"

#include <gtest/gtest.h>

#include "tests/policy/entry_builder.h"

namespace cinch::policy {
namespace {

Geometry view(const Dims& sizes, const Dims& strides, std::int64_t offset = 0) {
  return {sizes, strides, offset};
}

TEST(Covers, ContiguousAndPermutedTensors) {
  const Dims sizes{2, 3, 4, 5};
  const Dims nchw = contiguous(sizes);
  const Dims nhwc = channels_last(sizes);
  EXPECT_TRUE(covers(view(sizes, nchw), 120));
  EXPECT_TRUE(covers(view(sizes, nhwc), 120));
  EXPECT_FALSE(covers(view(sizes, nchw), 121)) << "padding behind";
  EXPECT_FALSE(covers(view(sizes, nchw, 1), 120)) << "does not begin at the start";
}

TEST(Covers, StridesOfSingleElementsDoNotMatter) {
  const Dims sizes{1, 6, 1};
  const Dims strides{77, 1, 5};
  EXPECT_TRUE(covers(view(sizes, strides), 6));
}

TEST(Covers, ExpandedAndOverlappingViewsDoNot) {
  const Dims sizes{2, 4};
  const Dims expanded{0, 1};
  const Dims overlapping{2, 1};
  const Dims gaps{8, 2};
  EXPECT_FALSE(covers(view(sizes, expanded), 8));
  EXPECT_FALSE(covers(view(sizes, expanded), 4));
  EXPECT_FALSE(covers(view(sizes, overlapping), 8));
  EXPECT_FALSE(covers(view(sizes, gaps), 8));
  const Dims none{0, 4};
  EXPECT_FALSE(covers(view(none, expanded), 0));
}

TEST(Pairs, AreNeighbours) {
  const Dims sizes = {3, 4};
  const Dims strides = {1, 3};
  const Pairs pairs({sizes, strides, 5});
  const Geometry found = pairs.geometry();
  EXPECT_EQ(Dims(found.sizes.begin(), found.sizes.end()), (Dims{3, 4, 2}));
  EXPECT_EQ(Dims(found.strides.begin(), found.strides.end()), (Dims{2, 6, 1}));
  EXPECT_EQ(found.offset, 10);
  EXPECT_TRUE(covers(Pairs({sizes, strides, 0}).geometry(), 24));
  EXPECT_FALSE(covers(Pairs({sizes, strides, 0}).geometry(), 12));
}

TEST(PlaneLayout, ByRank) {
  const Dims sizes4{2, 3, 4, 5};
  const Dims strides4 = contiguous(sizes4);
  const auto l4 = plane_layout(view(sizes4, strides4), 0);
  ASSERT_TRUE(l4);
  EXPECT_EQ(l4->outer, 2);
  EXPECT_EQ(l4->inner, 3);
  EXPECT_EQ(l4->extent, (std::array<std::int64_t, 3>{1, 4, 5}));
  EXPECT_TRUE(l4->is_contiguous());

  const Dims sizes3{2, 3, 5};
  const Dims strides3 = contiguous(sizes3);
  const auto l3 = plane_layout(view(sizes3, strides3), 0);
  ASSERT_TRUE(l3);
  EXPECT_EQ(l3->extent, (std::array<std::int64_t, 3>{1, 1, 5}));
  EXPECT_TRUE(l3->is_contiguous());

  const Dims sizes5{2, 3, 4, 5, 6};
  const Dims strides5 = contiguous(sizes5);
  const auto l5 = plane_layout(view(sizes5, strides5), 0);
  ASSERT_TRUE(l5);
  EXPECT_EQ(l5->extent, (std::array<std::int64_t, 3>{4, 5, 6}));
  EXPECT_TRUE(l5->is_contiguous());

  const Dims sizes2{2, 3};
  const Dims strides2 = contiguous(sizes2);
  EXPECT_FALSE(plane_layout(view(sizes2, strides2), 0)) << "(N, C) has no planes";
}

TEST(PlaneLayout, ChannelsLastHasTheSameLogicalPlanes) {
  const Dims sizes{2, 3, 4, 5};
  const Dims strides = channels_last(sizes);
  const auto layout = plane_layout(view(sizes, strides), 0);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->planes(), 6);
  EXPECT_EQ(layout->plane_size(), 20);
  EXPECT_EQ(layout->outer_stride, 60);
  EXPECT_EQ(layout->inner_stride, 1);
  EXPECT_EQ(layout->stride, (std::array<std::int64_t, 3>{0, 15, 3}));
  EXPECT_FALSE(layout->is_contiguous());
}

TEST(PlaneLayout, UnbatchedPoolingHasChannelsOnly) {
  const Dims sizes{3, 4, 5};
  const Dims strides = contiguous(sizes);
  const auto layout = plane_layout(view(sizes, strides), 2);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->outer, 1);
  EXPECT_EQ(layout->inner, 3);
  EXPECT_EQ(layout->plane_size(), 20);
}

TEST(FeaturesApart, HaveConsecutiveRowsInAPlane) {
  const Dims sizes{4, 128, 96};
  const auto layout = features_apart(view(sizes, contiguous(sizes)), 4 * 128 * 96, 256, false);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->extent, (std::array<std::int64_t, 3>{96, 1, 256}));
  EXPECT_EQ(layout->stride, (std::array<std::int64_t, 3>{1, 0, 96}));
  EXPECT_EQ(layout->outer, 2);
  EXPECT_EQ(layout->outer_stride, 256 * 96);
  EXPECT_EQ(layout->elements(), 4 * 128 * 96);
}

TEST(FeaturesApart, AreAllOfARowInMemory) {
  const Dims heads{2, 12, 128, 64};  // of a fused projection
  const Dims strides{128 * 2304, 64, 2304, 1};
  const auto fused = features_apart(view(heads, strides, 768), 2 * 128 * 2304, 256, false);
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->extent[0], 2304);
  const auto copied = features_apart(view(heads, contiguous(heads)), 2 * 12 * 128 * 64, 256, false);
  ASSERT_TRUE(copied);
  EXPECT_EQ(copied->extent[0], 64);
  const Dims transposed{24, 64, 128};
  const Dims transposed_strides{64 * 128, 1, 64};
  const auto keys = features_apart(view(transposed, transposed_strides), 24 * 64 * 128, 256, false);
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->extent[0], 64);
}

TEST(FeaturesApart, HaveWholeGroupsOfOtherSizesWhereRowsAskForThem) {
  const auto group_of = [](std::int64_t rows, bool on_device) {
    const Dims sizes{rows, 32};
    const Dims strides = contiguous(sizes);
    const auto layout = features_apart(view(sizes, strides), rows * 32, 256, on_device);
    return layout ? layout->extent[2] : 0;
  };
  EXPECT_EQ(group_of(1 << 14, false), 256);
  EXPECT_EQ(group_of(32 * 17, false), 272);
  EXPECT_EQ(group_of(32 * 43, false), 344);
  EXPECT_EQ(group_of(32 * 197, false), 8 * 197);
  EXPECT_EQ(group_of(200, false), 200) << "there are no more";
  EXPECT_EQ(group_of(127, false), 0);
  EXPECT_EQ(group_of(100, false), 0);
  EXPECT_EQ(group_of(10007, false), 0) << "a prime";
  EXPECT_EQ(group_of(1 << 14, true), 256);
  EXPECT_EQ(group_of(3 * 128, true), 128);
  EXPECT_EQ(group_of(32 * 17, true), 0);
}

TEST(FeaturesApart, AreNoneOfGaps) {
  const Dims sizes{256, 32};
  EXPECT_TRUE(features_apart(view(sizes, {32, 1}), 256 * 32, 256, true));
  EXPECT_FALSE(features_apart(view(sizes, {64, 2}), 256 * 64, 256, false));
  EXPECT_FALSE(features_apart(view(sizes, {0, 1}), 32, 256, false)) << "expanded";
  EXPECT_FALSE(features_apart(view(sizes, {8, 1}), 256 * 8 + 24, 256, false)) << "overlapping";
  EXPECT_FALSE(features_apart(view(sizes, {32, 1}), 256 * 32 + 8, 256, false)) << "padding behind";
  const Dims vector{4096}, odd{256, 12};
  EXPECT_FALSE(features_apart(view(vector, {1}), 4096, 256, false));
  EXPECT_TRUE(features_apart(view(odd, {12, 1}), 256 * 12, 256, false));
  EXPECT_FALSE(features_apart(view(odd, {12, 1}), 256 * 12, 256, true)) << "no whole vectors";
}

TEST(RowLength, IsTheContiguousDimension) {
  const Dims sizes{16, 768};
  const Dims strides = contiguous(sizes);
  EXPECT_EQ(row_length(view(sizes, strides)), 768);
  const Dims transposed{768, 16};
  const Dims transposed_strides{1, 768};
  EXPECT_EQ(row_length(view(transposed, transposed_strides)), 768);
}

TEST(RowLength, OfAHeadInAFusedProjection) {
  const Dims sizes{2, 12, 128, 64};  // (B, H, T, D) of a (B, T, 3, H, D) storage
  const Dims strides{128 * 2304, 64, 2304, 1};
  EXPECT_EQ(row_length(view(sizes, strides, 768)), 64);
}

TEST(RowLength, JoinsShortRowsWithWhatLiesBesideThem) {
  const Dims sizes{100, 8, 4};
  const Dims strides = contiguous(sizes);
  EXPECT_EQ(row_length(view(sizes, strides)), 32);
  const Dims strided{10, 10};
  const Dims gaps{20, 2};
  EXPECT_EQ(row_length(view(strided, gaps)), 0);
}

TEST(FlatRow, AlwaysDivides) {
  EXPECT_EQ(flat_row(4096, 256), 256);
  EXPECT_EQ(flat_row(100, 256), 100);
  EXPECT_EQ(flat_row(1000, 256), 200) << "rather a multiple of 8 than 250";
  EXPECT_EQ(flat_row(8 * 37, 256), 148) << "unless that were far shorter";
  EXPECT_EQ(flat_row(10007, 256), 10007) << "a prime: one row";
  EXPECT_EQ(flat_row(257 * 257, 256), 257) << "longer where nothing shorter divides";
  for (std::int64_t n = 1; n < 3000; ++n) {
    EXPECT_EQ(n % flat_row(n, 256), 0) << n;
  }
}

TEST(BitsPerElement, AreThePapers) {
  codecs::CodecSpec spec;
  spec.edge_ceil = false;
  const auto square = [&spec](std::int64_t edge) {
    codecs::PlaneLayout layout;
    layout.extent = {1, edge, edge};
    return division_bits_per_element(spec, layout);
  };
  EXPECT_NEAR(square(112), 2.2526, 1e-4);
  EXPECT_NEAR(square(28), 2.2245, 1e-4);
  EXPECT_NEAR(square(14), 2.2449, 1e-4);
  EXPECT_NEAR(square(7), 2.9796, 1e-4);
  EXPECT_NEAR(square(2), 14, 1e-9);
  spec.edge_ceil = true;
  EXPECT_NEAR(square(28), 2.367, 1e-3);
  EXPECT_NEAR(square(14), 2.490, 1e-3);
  spec.residual_group = 256;
  EXPECT_NEAR(square(112), 2.3750, 1e-4)
      << "means and ranges take 16 bits of 64 elements, 32 of 256";
  spec.residual_group = 0;
  spec.bits = 4;
  EXPECT_NEAR(division_bits_per_element(spec, codecs::PlaneLayout::rows(768, 768)), 6.0417, 1e-4);
}

}  // namespace
}  // namespace cinch::policy
