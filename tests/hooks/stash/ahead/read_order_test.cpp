// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/read_order.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

using Read = ReadOrder::Read;
using Reads = codecs::Reads;

std::vector<std::uint32_t> positions_after(const ReadOrder& order, std::uint32_t position) {
  std::vector<std::uint32_t> positions;
  for (const Read& read : order.after({position, Reads::values}))
    positions.push_back(read.position);
  return positions;
}

void read_all(ReadOrder& order, const std::vector<std::uint32_t>& positions) {
  for (const std::uint32_t position : positions) order.add({position, Reads::values});
}

TEST(ReadOrder, KnowsNothingInTheFirstStep) {
  ReadOrder order;
  EXPECT_THAT(positions_after(order, 3), testing::IsEmpty());
  order.begin_growth(0);
  read_all(order, {3, 2});
  EXPECT_THAT(positions_after(order, 3), testing::IsEmpty());
}

TEST(ReadOrder, ForetellsTheLastStep) {
  ReadOrder order;
  order.begin_growth(0);
  read_all(order, {3, 1, 2, 0});
  order.begin_growth(1);
  EXPECT_THAT(positions_after(order, 3), testing::ElementsAre(1, 2, 0));
  EXPECT_THAT(positions_after(order, 0), testing::IsEmpty());
  EXPECT_THAT(positions_after(order, 7), testing::IsEmpty());
}

TEST(ReadOrder, TellsWhatIsReadFromWhatElseIsRead) {
  ReadOrder order;
  order.begin_growth(0);
  order.add({1, Reads::values});
  order.add({1, Reads::sign});
  order.add({0, Reads::values});
  order.begin_growth(1);
  EXPECT_EQ(order.after({1, Reads::values}).front(), (Read{1, Reads::sign}));
  EXPECT_EQ(order.after({1, Reads::sign}).front(), (Read{0, Reads::values}));
}

TEST(ReadOrder, GrowthsOfOneStepAreForetoldApart) {
  ReadOrder order;
  order.begin_growth(0);
  read_all(order, {1, 0});
  order.begin_growth(0);
  read_all(order, {1, 2, 3});
  order.begin_growth(1);
  EXPECT_THAT(positions_after(order, 1), testing::ElementsAre(0));
  order.begin_growth(1);
  EXPECT_THAT(positions_after(order, 1), testing::ElementsAre(2, 3));
}

TEST(ReadOrder, FollowsAChangedGraph) {
  ReadOrder order;
  order.begin_growth(0);
  read_all(order, {2, 1, 0});
  order.begin_growth(1);
  read_all(order, {2, 0, 1});
  order.begin_growth(2);
  EXPECT_THAT(positions_after(order, 2), testing::ElementsAre(0, 1));
}

TEST(ReadOrder, IsBoundedWithoutAnOptimizer) {
  ReadOrder order;
  for (int growth = 0; growth < 1000; ++growth) {
    order.begin_growth(0);
    read_all(order, {1, 0});
  }
  order.begin_growth(0);
  EXPECT_THAT(positions_after(order, 1), testing::ElementsAre(0));
}

}  // namespace
}  // namespace cinch::hooks
