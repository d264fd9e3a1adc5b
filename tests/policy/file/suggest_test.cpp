// SPDX-License-Identifier: Apache-2.0
#include "policy/file/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("bits", ""), 4U);
  EXPECT_EQ(edit_distance("bits", "bits"), 0U);
  EXPECT_EQ(edit_distance("bit", "bits"), 1U);
  EXPECT_EQ(edit_distance("btis", "bits"), 1U);
  EXPECT_EQ(edit_distance("block", "clock"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(DidYouMean, NamesTheNearestWordOnly) {
  const std::vector<std::string> known{"block", "bits", "edge"};
  EXPECT_EQ(did_you_mean("bit", known), "; did you mean \"bits\"?");
  EXPECT_EQ(did_you_mean("blocks", known), "; did you mean \"block\"?");
  EXPECT_EQ(did_you_mean("temperature", known), "");
  EXPECT_EQ(did_you_mean("", known), "");
  EXPECT_EQ(did_you_mean(std::string(10000, 'b'), known), "");
}

TEST(QuotedList, SeparatesWithCommas) {
  EXPECT_EQ(quoted_list({}), "");
  EXPECT_EQ(quoted_list(std::vector<std::string>{"a", "b"}), "\"a\", \"b\"");
}

}  // namespace
}  // namespace cinch::policy
