// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/guard.h"

#include <cmath>
#include <limits>
#include <vector>

#include <c10/util/BFloat16.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

using Member = EntryClass::Member;

template <typename T>
ValueError error_of(codecs::ElementType type, const std::vector<T>& exact,
                    const std::vector<T>& decoded) {
  return value_error(exact.data(), decoded.data(), type, exact.size() * sizeof(T));
}

TEST(ValueError, IsRelativeToTheEuclideanNorm) {
  const auto type = codecs::ElementType::float32;
  EXPECT_NEAR(error_of<float>(type, {3, 4}, {3, 4.5}).relative, 0.1, 1e-12);
  EXPECT_EQ(error_of<float>(type, {3, 4}, {3, 4}).relative, 0);
  EXPECT_EQ(error_of<float>(type, {0, 0}, {0, 0}).relative, 0);
  EXPECT_EQ(error_of<float>(type, {}, {}).relative, 0);
  EXPECT_NEAR(error_of<double>(codecs::ElementType::float64, {3, 4}, {3, 4.5}).relative, 0.1,
              1e-12);
  EXPECT_NEAR(error_of<c10::BFloat16>(codecs::ElementType::bfloat16, {3, 4}, {3, 5}).relative, 0.2,
              1e-12);
}

TEST(ValueError, CountsWhatBecameNotFinite) {
  const auto type = codecs::ElementType::float32;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const ValueError error = error_of<float>(type, {1, nan, inf, 2, 3}, {1, nan, nan, inf, nan});
  EXPECT_EQ(error.non_finite, 2U);
  EXPECT_EQ(error.relative, 0);
}

TEST(Guard, LooksEveryFewSteps) {
  Guard guard({.every_steps = 10});
  std::vector<std::uint64_t> looked;
  for (std::uint64_t step = 0; step < 40; ++step) {
    Member member;  // of a class never seen before
    if (guard.wants(member, 100, step, 1600, {})) looked.push_back(step);
  }
  EXPECT_EQ(looked, (std::vector<std::uint64_t>{1, 11, 21, 31}));
}

TEST(Guard, NeverLooksWhenSwitchedOff) {
  Guard guard({.every_steps = 0});
  Member member;
  for (std::uint64_t step = 0; step < 300; ++step)
    EXPECT_FALSE(guard.wants(member, 1, step, 0, {}));
}

TEST(Guard, KeepsNoMoreThanThereIsRoomFor) {
  Guard guard({.every_steps = 1});
  Member members[4];
  const auto wants = [&](int i, std::size_t bytes, std::uint64_t step) {
    return guard.wants(members[i], 1000, step, 1 << 20, {bytes, 100});
  };
  EXPECT_FALSE(wants(0, 101, 1)) << "not even as the first";
  EXPECT_TRUE(wants(1, 60, 1));
  EXPECT_FALSE(wants(2, 60, 1));
  EXPECT_TRUE(wants(3, 40, 1));
  EXPECT_TRUE(wants(2, 60, 2)) << "in another step";
}

TEST(NodesThatRead, LeaveRecipesOut) {
  Entry entry;
  Use use;
  Use recipes;
  use.sequence = recipes.sequence = 5;  // a recipe's use has that of the node that saved the entry
  recipes.is_recipes = true;
  NodesThatRead nodes;
  entry.append(use);
  nodes.add(entry);
  entry.append(recipes);
  EXPECT_FALSE(nodes.remove(recipes));
  EXPECT_TRUE(nodes.contains(5));
  EXPECT_TRUE(nodes.remove(use));
  EXPECT_FALSE(nodes.contains(5));
}

TEST(Guard, GoesRoundAllClassesWithinItsShare) {
  Guard guard({.every_steps = 1});
  std::vector<Member> members(10);
  std::vector<int> seen(members.size());
  for (std::uint64_t step = 1; step <= 11; ++step) {
    int at_once = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!guard.wants(members[i], 100, step, 3200, {})) continue;
      ++seen[i];
      ++at_once;
    }
    EXPECT_LE(at_once, 2) << "a sixteenth of 3200 bytes are two entries";
  }
  // Five looks a round, and one that finds nobody left.
  EXPECT_EQ(seen, std::vector<int>(10, 2)) << "";
}

TEST(Guard, TakesOneHoweverLarge) {
  Guard guard({.every_steps = 1});
  Member large;
  Member another;
  EXPECT_TRUE(guard.wants(large, 1 << 20, 1, 100, {}));
  EXPECT_FALSE(guard.wants(another, 1, 1, 100, {}));
}

TEST(Guard, KnowsTheNodesOfWatchedEntries) {
  Guard guard({});
  Entry entry;
  Use uses[3];
  for (std::uint64_t i = 0; i < 3; ++i) {
    uses[i].sequence = i < 2 ? 7 : 9;
    entry.append(uses[i]);
  }
  EXPECT_FALSE(guard.is_watched(7));
  guard.watch(entry);
  EXPECT_TRUE(guard.is_watched(7));
  EXPECT_TRUE(guard.is_watched(9));
  EXPECT_FALSE(guard.is_watched(8));
  guard.forget(uses[0]);
  EXPECT_TRUE(guard.is_watched(7)) << "another use of that node is left";
  guard.forget(uses[1]);
  guard.forget(uses[2]);
  EXPECT_FALSE(guard.is_watched(7));
  EXPECT_FALSE(guard.is_watched(9));
}

TEST(Guard, LimitsAreLimits) {
  const Guard guard({.max_relative_error = 0.5, .max_gradient_error = 2});
  EXPECT_FALSE(guard.too_far(ValueError{.relative = 0.5}));
  EXPECT_TRUE(guard.too_far(ValueError{.relative = 0.51}));
  EXPECT_TRUE(guard.too_far(ValueError{.non_finite = 1}));
  EXPECT_FALSE(guard.too_far(2.0));
  EXPECT_TRUE(guard.too_far(2.1));
  EXPECT_TRUE(guard.too_far(std::nan("")));
}

}  // namespace
}  // namespace cinch::hooks
