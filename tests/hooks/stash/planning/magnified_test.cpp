// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/magnified.h"

#include <array>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/program/site.h"

namespace cinch::hooks {
namespace {

class MagnifiedTest : public testing::Test {
 protected:
  Use use(Site& site, const at::Tensor& tensor, std::uint32_t node) {
    return {.site = &site,
            .geometry = Geometry(tensor),
            .operator_says = {},
            .type = at::kFloat,
            .sequence = node};
  }
  Use use(Site& site, std::int64_t elements, std::uint32_t node) {
    return use(site, at::empty({elements}), node);
  }
  bool marks(Use&& use) {
    Entry entry;
    entry.append(use);
    magnified_.mark(entry);
    return use.is_magnified;
  }

  Site site_{Site::Kind::one};
  Site other_{Site::Kind::one};
  Magnified magnified_;
};

TEST_F(MagnifiedTest, KnowsWhatSuchNodesReadInLaterSteps) {
  EXPECT_FALSE(magnified_.any_nodes());
  magnified_.add(std::array<std::uint32_t, 2>{3, 4});
  EXPECT_TRUE(magnified_.any_nodes());
  EXPECT_TRUE(magnified_.learn(use(site_, 7, 3)));
  EXPECT_FALSE(magnified_.learn(use(site_, 7, 3))) << "is known";
  EXPECT_TRUE(marks(use(site_, 7, 103)));
  EXPECT_FALSE(marks(use(site_, 8, 103)));
  EXPECT_FALSE(marks(use(other_, 7, 103)));
}

TEST_F(MagnifiedTest, TakesNoShapeForAnother) {
  const at::Tensor whole = at::empty({2, 3, 1, 4});
  magnified_.add(std::array<std::uint32_t, 1>{3});
  magnified_.learn(use(site_, whole, 3));
  EXPECT_TRUE(marks(use(site_, whole, 103)));
  EXPECT_FALSE(marks(use(site_, at::empty({12}).as_strided({2, 3}, {1, 4}), 103)));
}

TEST_F(MagnifiedTest, KnowsWhatSuchNodesSavedInThisStep) {
  magnified_.add(std::array<std::uint32_t, 1>{3});
  EXPECT_TRUE(marks(use(site_, 7, 3)));
}

TEST_F(MagnifiedTest, LearnsNothingOfOtherNodes) {
  magnified_.add(std::array<std::uint32_t, 1>{3});
  EXPECT_FALSE(magnified_.learn(use(site_, 7, 5)));
  EXPECT_FALSE(marks(use(site_, 7, 105)));
}

TEST_F(MagnifiedTest, LeavesRecipesUsesAlone) {
  magnified_.add(std::array<std::uint32_t, 1>{3});
  Use recipes = use(site_, 7, 3);
  recipes.is_recipes = true;
  EXPECT_FALSE(marks(std::move(recipes)));
}

TEST_F(MagnifiedTest, ForgetsWhenThereAreThousands) {
  magnified_.add(std::array<std::uint32_t, 1>{3});
  for (std::uint32_t node = 10; node < 5000; ++node) {
    magnified_.add(std::array<std::uint32_t, 1>{node});
    magnified_.learn(use(site_, node, node));
  }
  EXPECT_FALSE(marks(use(site_, 7, 3)));
  EXPECT_FALSE(marks(use(site_, 10, 0)));
  EXPECT_TRUE(marks(use(site_, 4999, 0)));
}

}  // namespace
}  // namespace cinch::hooks
