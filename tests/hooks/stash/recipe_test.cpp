// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipe.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/proofs.h"

namespace cinch::hooks {
namespace {

Recipe::Step layer_norm(std::int64_t rows, std::int64_t row) {
  Recipe::Step step;
  step.op = Recipe::Operator::row_norm;
  step.rows = rows;
  step.row = row;
  step.scale.assign(static_cast<std::size_t>(row), 1);
  step.shift.assign(static_cast<std::size_t>(row), 0);
  return step;
}

bool same_bits(const at::Tensor& a, const std::vector<float>& b) {
  return std::memcmp(a.const_data_ptr(), b.data(), b.size() * sizeof(float)) == 0;
}

TEST(Recipe, LayerNormAndGeluGiveTorchsBits) {
  const at::Tensor x = at::randn({6, 131});
  const auto [y, mean, rstd] = at::native_layer_norm(x, {131}, {}, {}, 1e-5);
  Recipe recipe;
  recipe.elements = x.numel();
  recipe.threads = at::get_num_threads();
  recipe.steps.push_back(layer_norm(6, 131));
  recipe.steps.back().mean.held = mean;
  recipe.steps.back().rstd.held = rstd;
  recipe.source_count = 1;
  const std::array values = {x.const_data_ptr<float>()};
  std::vector<float> out(static_cast<std::size_t>(x.numel()));
  recipe.compute(values, nullptr, out.data());
  EXPECT_TRUE(same_bits(y, out));
  recipe.steps.emplace_back().op = Recipe::Operator::gelu;
  recipe.compute(values, nullptr, out.data());
  EXPECT_TRUE(same_bits(at::gelu(y), out));
}

TEST(Recipe, SumsAndMasks) {
  Recipe recipe;
  recipe.elements = 4;
  recipe.threads = at::get_num_threads();
  recipe.source_count = 2;
  recipe.steps.emplace_back().op = Recipe::Operator::add;
  recipe.steps.back().other = 1;
  recipe.steps.emplace_back().op = Recipe::Operator::relu;
  const std::array<float, 4> a = {1, -2, 3, -4};
  const std::array<float, 4> b = {1, 1, -4, 8};
  const std::array<const float*, 2> values = {a.data(), b.data()};
  std::vector<float> out(4);
  recipe.compute(values, nullptr, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 0, 0, 4}));
  const std::array mask = {std::byte{0b0101}};
  recipe.compute(values, mask.data(), out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 0, -1, 0}));  // inexact sources may be on the other side
}

class ProofsTest : public testing::Test {
 protected:
  ProofsTest() {
    recipe.elements = 8;
    recipe.all_sources.front().use.site = &site;
    recipe.steps.emplace_back().op = Recipe::Operator::silu;
  }

  bool admits(Proofs::Comparison found) {
    return proofs.admits(recipe, site, [&] {
      ++compared;
      return found;
    });
  }

  Recipe recipe;
  Site site{Site::Kind::one};
  Proofs proofs;
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
