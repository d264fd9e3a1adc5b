// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/proofs.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

class ProofsTest : public testing::Test {
 protected:
  ProofsTest() {
    recipe.elements = 8;
    recipe.all_sources.front().use.site = &site;
    recipe.value.steps.emplace_back().op = Recipe::Operator::silu;
  }

  Proofs::Answer answer(Proofs::Comparison found) {
    return proofs.admits(recipe, site, near_serves, [&]() -> Proofs::Found {
      ++compared;
      return {found};
    });
  }
  bool admits(Proofs::Comparison found) { return answer(found) == Proofs::Answer::yes; }

  Recipe recipe;
  Site site{Site::Kind::one};
  std::vector<std::string> reported;
  Proofs proofs{[&](std::string label, std::string what) {
    reported.push_back(std::move(label) + ": " + std::move(what));
  }};
  bool near_serves = true;
  int compared = 0;
};

TEST_F(ProofsTest, TwoComparisonsComeFirst) {
  EXPECT_FALSE(admits(Proofs::Comparison::equal));
  EXPECT_FALSE(admits(Proofs::Comparison::not_made));
  EXPECT_TRUE(admits(Proofs::Comparison::equal));
  EXPECT_TRUE(admits(Proofs::Comparison::equal));
  EXPECT_EQ(compared, 3);
}

TEST_F(ProofsTest, OneDifferenceIsEnough) {
  for (int i = 0; i < 2; ++i) admits(Proofs::Comparison::equal);
  int until = 0;
  while (admits(Proofs::Comparison::different)) ASSERT_LT(++until, 64);
  EXPECT_EQ(compared, 3);
  EXPECT_EQ(proofs.refused(), 1U);
  EXPECT_FALSE(admits(Proofs::Comparison::equal));
  const std::vector<std::string> expected = {
      "derived: 8 elements: other bits than PyTorch's, so such tensors are stored"};
  EXPECT_EQ(reported, expected);
}

TEST_F(ProofsTest, WhatWasNearOnceIsNearForGood) {
  EXPECT_FALSE(admits(Proofs::Comparison::near));
  for (int i = 0; i < 3; ++i) {
    recipe.is_near = false;
    EXPECT_TRUE(admits(Proofs::Comparison::equal));
    EXPECT_TRUE(recipe.is_near);
  }
  EXPECT_EQ(compared, 2);
}

TEST_F(ProofsTest, ALaterNearnessCounts) {
  for (int i = 0; i < 2; ++i) admits(Proofs::Comparison::equal);
  EXPECT_FALSE(recipe.is_near);
  int until = 0;
  while (!recipe.is_near) {
    ASSERT_TRUE(admits(Proofs::Comparison::near));
    ASSERT_LT(++until, 66);
  }
  EXPECT_EQ(compared, 3);
}

TEST_F(ProofsTest, NearnessServesNotWhereAllIsExact) {
  for (int i = 0; i < 2; ++i) admits(Proofs::Comparison::near);
  near_serves = false;
  recipe.is_near = false;
  EXPECT_FALSE(admits(Proofs::Comparison::equal));
}

TEST_F(ProofsTest, NewSizesOfANearStructureAreNear) {
  for (int size = 1; size <= 17; ++size) {
    recipe.elements = size;
    recipe.is_near = false;
    EXPECT_EQ(admits(size == 3 ? Proofs::Comparison::near : Proofs::Comparison::equal), size >= 16);
  }
  EXPECT_TRUE(recipe.is_near);
}

TEST_F(ProofsTest, ManySizesProveAStructure) {
  for (int size = 1; size <= 16; ++size) {
    recipe.elements = size;
    EXPECT_EQ(admits(Proofs::Comparison::equal), size == 16);
  }
  int compared_later = -compared;
  for (int size = 17; size <= 48; ++size) {
    recipe.elements = size;
    EXPECT_TRUE(admits(Proofs::Comparison::equal));
  }
  compared_later += compared;
  EXPECT_EQ(compared_later, 2);
}

TEST_F(ProofsTest, OneDifferenceEndsAStructuresProof) {
  for (int size = 1; size <= 20; ++size) {
    recipe.elements = size;
    admits(size == 3 ? Proofs::Comparison::different : Proofs::Comparison::equal);
  }
  recipe.elements = 21;
  EXPECT_FALSE(admits(Proofs::Comparison::equal));
  recipe.elements = 4;
  EXPECT_TRUE(admits(Proofs::Comparison::equal));
}

TEST_F(ProofsTest, ValuesAreAskedForUntilThereIsAProof) {
  EXPECT_EQ(answer(Proofs::Comparison::not_made), Proofs::Answer::unproved);
  for (int i = 0; i < 2; ++i) admits(Proofs::Comparison::equal);
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(admits(Proofs::Comparison::not_made));
  EXPECT_EQ(compared, 4);
}

TEST_F(ProofsTest, ValuesThatNeverComeAreAskedForSixteenTimes) {
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    asked += answer(Proofs::Comparison::not_made) == Proofs::Answer::unproved ? 1 : 0;
  }
  EXPECT_EQ(asked, 16);
}

/// What a device compares.
struct Late final : Proofs::Awaited {
  std::optional<Proofs::Comparison> outcome() const noexcept override { return found; }
  std::optional<Proofs::Comparison> found;
};

class LateProofsTest : public ProofsTest {
 protected:
  /// Whether a recipe may be used whose comparison a device would make.
  bool admits_late() {
    return proofs.admits(recipe, site, near_serves, [&]() -> Proofs::Found {
      enqueued.push_back(std::make_shared<Late>());
      return {Proofs::Comparison::awaited, enqueued.back()};
    }) == Proofs::Answer::yes;
  }

  std::vector<std::shared_ptr<Late>> enqueued;
};

TEST_F(LateProofsTest, TwoOutcomesAreAwaited) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(admits_late());
  ASSERT_EQ(enqueued.size(), 2U);
  enqueued[0]->found = Proofs::Comparison::equal;
  EXPECT_FALSE(admits_late());
  enqueued[1]->found = Proofs::Comparison::equal;
  EXPECT_TRUE(admits_late());
  EXPECT_EQ(enqueued.size(), 2U);
}

TEST_F(LateProofsTest, ADeviceProvesNearnessToo) {
  for (int i = 0; i < 2; ++i) admits_late();
  for (const auto& each : enqueued) each->found = Proofs::Comparison::near;
  EXPECT_TRUE(admits_late());
  EXPECT_TRUE(recipe.is_near);
}

TEST_F(LateProofsTest, WhatIsComparedLaterOnIsStored) {
  for (int i = 0; i < 2; ++i) admits_late();
  for (const auto& each : enqueued) each->found = Proofs::Comparison::equal;
  int stored = 0;
  for (int i = 0; i < 130; ++i) {
    stored += admits_late() ? 0 : 1;
    EXPECT_EQ(enqueued.size(), static_cast<std::size_t>(2 + stored));
  }
  EXPECT_EQ(stored, 2);
  enqueued[2]->found = Proofs::Comparison::equal;
  EXPECT_TRUE(admits_late());
  enqueued[3]->found = Proofs::Comparison::different;
  EXPECT_FALSE(admits_late());
  EXPECT_EQ(proofs.refused(), 1U);
}

TEST_F(LateProofsTest, NewWeightsProveNothing) {
  for (int i = 0; i < 2; ++i) admits_late();
  for (const auto& each : enqueued) each->found = Proofs::Comparison::neutral;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(admits_late());
  ASSERT_EQ(enqueued.size(), 4U) << "two more are compared";
  for (const auto& each : enqueued) each->found = Proofs::Comparison::equal;
  EXPECT_TRUE(admits_late());
}

TEST_F(LateProofsTest, WeightsThatStayNewAreRarelyCompared) {
  constexpr int recipes = 16 + 64 * 3;
  for (int i = 0; i < recipes; ++i) {
    EXPECT_FALSE(admits_late());
    if (!enqueued.empty()) enqueued.back()->found = Proofs::Comparison::neutral;
  }
  EXPECT_EQ(enqueued.size(), 16U + 3U);
}

TEST_F(LateProofsTest, NewWeightsHideNoDifference) {
  admits_late();
  enqueued.back()->found = Proofs::Comparison::different;
  EXPECT_FALSE(admits_late());
  EXPECT_EQ(proofs.refused(), 1U);
}

TEST_F(LateProofsTest, ADifferenceEndsTheProofWhenItIsKnown) {
  for (int i = 0; i < 2; ++i) admits_late();
  enqueued[1]->found = Proofs::Comparison::different;
  EXPECT_FALSE(admits_late());
  enqueued[0]->found = Proofs::Comparison::equal;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(admits_late());
  EXPECT_EQ(enqueued.size(), 2U);
}

TEST_F(ProofsTest, AnotherKindIsProvedAnew) {
  for (int i = 0; i < 2; ++i) admits(Proofs::Comparison::equal);
  recipe.version = 1;
  EXPECT_FALSE(admits(Proofs::Comparison::equal));
  recipe.version = 0;
  EXPECT_TRUE(admits(Proofs::Comparison::equal));
}

}  // namespace
}  // namespace cinch::hooks
