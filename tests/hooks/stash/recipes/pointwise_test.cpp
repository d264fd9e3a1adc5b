// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/pointwise.h"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/recipes/host_arithmetic.h"

namespace cinch::hooks {
namespace {

using enum Recipe::Operator;

/// A recipe of a tensor that lies as its only source `x` does.
class Pointwise : public testing::Test {
 protected:
  Pointwise() {
    source_.raw_bytes = x_.nbytes();
    recipe_->source_count = 1;
    recipe_->all_sources[0].entry = &source_;
    recipe_->all_sources[0].use.type = at::kFloat;
    recipe_->elements = x_.numel();
    recipe_->value.source = 0;
    recipe_->value.start = recipe_->value.result = layout_of(x_);
  }

  Recipe::Step& add(Recipe::Operator op) {
    recipe_->value.steps.emplace_back().op = op;
    return recipe_->value.steps.back();
  }

  Recipe::Step& add_channel_norm() {
    Recipe::Step& step = add(channel_norm);
    step.order = {4, 6, 35};
    step.scale = {1, -2, 3, 0.5F, 1, 7};
    step.shift = {0, 1, -2, 0.25F, 0, 9};
    return step;
  }

  Recipe::Step& add_row_norm() {
    Recipe::Step& step = add(row_norm);
    step.rows = 120;
    step.row = 7;
    std::tie(std::ignore, step.mean.held, step.rstd.held) =
        at::native_layer_norm(x_, {7}, {}, {}, 1e-5);
    step.scale = {1, 2, 3, 4, 5, 6, 7};
    step.shift = {0, 1, 0, 1, 0, 1, 0};
    return step;
  }

  /// Expects that pieces in place give what the whole recipe does.
  void expect_like_recipe(const std::byte* mask = nullptr, const SourceErrors& errors = {}) {
    ASSERT_TRUE(is_pointwise(*recipe_));
    ASSERT_EQ(needs_errors(*recipe_), !errors.steps.empty());
    const at::Tensor expected = at::empty_like(x_);
    const std::vector<const void*> values = {x_.const_data_ptr()};
    recipe_->compute(host_arithmetic(), values, mask, expected.mutable_data_ptr<float>(),
                     std::span(&errors, 1));
    const at::Tensor pieces = x_.clone();
    for (std::int64_t k = 0; k < x_.numel(); k += 104) {
      apply_pointwise(*recipe_, mask, errors, k, std::min(x_.numel(), k + 104),
                      pieces.mutable_data_ptr<float>());
    }
    EXPECT_TRUE(pieces.equal(expected));
  }

  at::Tensor x_ = at::randn({4, 6, 5, 7});
  Entry source_;
  const std::unique_ptr<Recipe> recipe_ = std::make_unique<Recipe>();
};

TEST_F(Pointwise, NormsAndReLUs) {
  add_channel_norm();
  expect_like_recipe();
  add(relu);
  expect_like_recipe();
  const std::vector<std::byte> mask(105, std::byte{0b0110'1001});
  expect_like_recipe(mask.data());
  add_row_norm();
  expect_like_recipe();
}

TEST_F(Pointwise, SmoothFunctionsOfQuantizedValues) {
  const SourceErrors errors = {std::vector<float>(14, 0.5F), 64, 840};
  for (const Recipe::Operator op : {gelu, silu}) {
    recipe_->value.steps.clear();
    add(op);
    expect_like_recipe(nullptr, errors);
    add(relu);
    expect_like_recipe(nullptr, errors);
  }
}

TEST_F(Pointwise, NothingElse) {
  EXPECT_FALSE(is_pointwise(*recipe_));  // no step
  add_channel_norm();
  ASSERT_TRUE(is_pointwise(*recipe_));
  add(gelu);
  EXPECT_FALSE(is_pointwise(*recipe_));  // PyTorch's
  recipe_->value.steps.back().op = relu;
  ASSERT_TRUE(is_pointwise(*recipe_));
  recipe_->source_count = 2;
  EXPECT_FALSE(is_pointwise(*recipe_));
  recipe_->source_count = 1;
  source_.raw_bytes *= 2;
  EXPECT_FALSE(is_pointwise(*recipe_));
  source_.raw_bytes /= 2;
  recipe_->value.steps.back().type = at::kBFloat16;
  EXPECT_FALSE(is_pointwise(*recipe_));
  recipe_->value.steps.back().type = at::kFloat;
  recipe_->value.result = layout_of(x_.transpose(0, 1).contiguous().transpose(0, 1));
  EXPECT_FALSE(is_pointwise(*recipe_));
  recipe_->value.start = recipe_->value.result;
  EXPECT_TRUE(is_pointwise(*recipe_));
  add_row_norm();  // of what is not contiguous
  EXPECT_FALSE(is_pointwise(*recipe_));
}

}  // namespace
}  // namespace cinch::hooks
