// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/layout.h"

#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

void expect_view(const std::optional<View>& found, const at::Tensor& expected) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layout, layout_of(expected));
  EXPECT_EQ(found->offset, expected.storage_offset());
}

TEST(Layout, ViewsAreThoseOfPyTorch) {
  const at::Tensor x = at::zeros({4, 6, 10});
  const Layout from = layout_of(x);
  expect_view(view(from, {4, 3, 2, 10}), x.view({4, 3, 2, 10}));
  expect_view(permute(from, {2, 0, -2}), x.permute({2, 0, 1}));
  expect_view(transpose(from, -1, 0), x.transpose(2, 0));
  expect_view(slice(from, 1, 1, 2, 3), x.slice(1, 1, 6, 2));
  expect_view(slice(from, -1, -4, 1, 4), x.slice(2, -4));
  expect_view(select(from, 0, -1), x.select(0, 3));
  const at::Tensor row = at::zeros({1, 5});
  expect_view(expand(layout_of(row), {2, 3, 5}), row.expand({2, 3, 5}));
}

TEST(Layout, WhatIsNoViewIsNone) {
  const Layout from = layout_of(at::zeros({4, 6}).t());
  EXPECT_FALSE(view(from, {24}));
  EXPECT_FALSE(view(from, {5, 5}));
  EXPECT_FALSE(permute(from, {0}));
  EXPECT_FALSE(transpose(from, 0, 2));
  EXPECT_FALSE(expand(from, {6, 8}));
  EXPECT_FALSE(slice(from, 0, 4, 1, 3));
  EXPECT_FALSE(slice(from, 0, 0, 0, 3));
  EXPECT_FALSE(select(from, 1, 4));
}

TEST(Layout, DenseLikeNestsDimensionsAlike) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const Layout like = layout_of(at::zeros({2, 3, 4, 5}).contiguous(last));
  EXPECT_EQ(dense_like({2, 7, 4, 5}, like), layout_of(at::zeros({2, 7, 4, 5}).contiguous(last)));
  EXPECT_EQ(dense_like({7, 4, 5}, like), contiguous({7, 4, 5}));
  EXPECT_TRUE(is_contiguous(contiguous({0, 3})));
}

TEST(Layout, SomeViewsShowAllDimensions) {
  const Layout whole = contiguous({4, 6, 5});
  const auto shows = [&](const std::optional<View>& view) {
    return shows_all_dimensions(view.value(), whole);
  };
  EXPECT_TRUE(shows(View{whole}));
  EXPECT_TRUE(shows(view(whole, {24, 5})));
  EXPECT_TRUE(shows(view(whole, {2, 2, 1, 30})));
  EXPECT_TRUE(shows(permute(whole, {2, 0, 1})));
  EXPECT_TRUE(shows(slice(whole, 1, 1, 2, 2)));
  EXPECT_FALSE(shows(slice(whole, 1, 1, 2, 1)));
  EXPECT_FALSE(shows(select(whole, 0, 3)));
  EXPECT_FALSE(shows(select(whole, 2, 0)));
  const Layout of_one = contiguous({1, 6});
  EXPECT_TRUE(shows_all_dimensions(*select(of_one, 0, 0), of_one)) << "one element has any stride";
}

TEST(Layout, ChannelOrders) {
  const auto plain = channel_order(contiguous({2, 3, 4, 5}), 1);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->outer, 2);
  EXPECT_EQ(plain->inner, 20);
  const at::Tensor last = at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto found = channel_order(layout_of(last), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outer, 40);
  EXPECT_EQ(found->inner, 1);
  EXPECT_FALSE(channel_order(layout_of(last.permute({3, 0, 1, 2})), 1));
  EXPECT_FALSE(channel_order(contiguous({4}), 1));
}

}  // namespace
}  // namespace cinch::hooks
