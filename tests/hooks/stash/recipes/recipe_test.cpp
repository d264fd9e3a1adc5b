// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/recipe.h"

#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/recipes/host_arithmetic.h"
#include "tests/hooks/same_bits.h"

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

/// A recipe of a tensor of `like`'s sizes and strides, whose first source is as `first` is.
std::unique_ptr<Recipe> recipe_like(const at::Tensor& like, const at::Tensor& first) {
  auto recipe = std::make_unique<Recipe>();
  recipe->elements = like.numel();
  recipe->threads = at::get_num_threads();
  recipe->value.source = 0;
  recipe->value.start = layout_of(first);
  recipe->value.result = layout_of(like);
  return recipe;
}

Recipe::Step& add_step(Recipe::Value& value, Recipe::Operator op) {
  value.steps.emplace_back().op = op;
  return value.steps.back();
}

/// The next operator's second value: source number `source`, as `tensor` is.
Recipe::Value value_of(int source, const at::Tensor& tensor) {
  Recipe::Value value;
  value.source = source;
  value.start_type = tensor.scalar_type();
  value.start = value.result = layout_of(tensor);
  return value;
}

at::Tensor computed(const Recipe& recipe, const std::vector<const void*>& values,
                    const std::byte* mask = nullptr, at::Tensor* other = nullptr) {
  const Layout& layout = recipe.value.layout();
  at::Tensor out = at::empty_strided(layout.sizes, layout.strides);
  recipe.compute(host_arithmetic(), values, mask, out.mutable_data_ptr<float>(), {}, other);
  return out;
}

TEST(Recipe, LayerNormAndGeluGiveTorchsBits) {
  for (const bool permuted : {false, true}) {
    const at::Tensor x = permuted ? at::randn({131, 6}).t() : at::randn({6, 131});
    const auto [y, mean, rstd] = at::native_layer_norm(x, {131}, {}, {}, 1e-5);
    const auto recipe = recipe_like(y, x);
    recipe->value.steps.push_back(layer_norm(6, 131));
    recipe->value.steps.back().mean.held = mean;
    recipe->value.steps.back().rstd.held = rstd;
    EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr()}), y));
    add_step(recipe->value, Recipe::Operator::gelu);
    EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr()}), at::gelu(y)));
  }
}

TEST(Recipe, ArgumentsAreSourcesOfWhichNothingButGeluOrSiluIsComputed) {
  const at::Tensor a = at::randn({4});
  const auto recipe = recipe_like(a, a);
  recipe->source_count = 3;
  const auto marked = [&recipe] {
    recipe->mark_arguments();
    std::vector<bool> are;
    for (const Recipe::Source& source : recipe->sources()) are.push_back(source.use.is_argument);
    return are;
  };
  Recipe::Value gate = value_of(1, a);
  add_step(gate, Recipe::Operator::silu);
  add_step(recipe->value, Recipe::Operator::gelu);
  add_step(recipe->value, Recipe::Operator::mul).others.push_back(std::move(gate));
  add_step(recipe->value, Recipe::Operator::add).others.push_back(value_of(2, a));
  EXPECT_EQ(marked(), (std::vector{true, true, false}));
  add_step(recipe->value, Recipe::Operator::add).others.push_back(value_of(1, a));
  EXPECT_EQ(marked(), (std::vector{true, false, false}));
}

TEST(Recipe, SumsAndMasks) {
  const at::Tensor a = at::tensor({1.0F, -2.0F, 3.0F, -4.0F});
  const at::Tensor b = at::tensor({1.0F, 1.0F, -4.0F, 8.0F});
  const auto recipe = recipe_like(a, a);
  add_step(recipe->value, Recipe::Operator::add).others.push_back(value_of(1, b));
  add_step(recipe->value, Recipe::Operator::relu);
  const std::vector<const void*> values = {a.const_data_ptr(), b.const_data_ptr()};
  EXPECT_TRUE(computed(*recipe, values).equal(at::tensor({2.0F, 0.0F, 0.0F, 4.0F})));
  const std::array mask = {std::byte{0b0101}};
  // Inexact sources may be on the other side.
  EXPECT_TRUE(computed(*recipe, values, mask.data()).equal(at::tensor({2.0F, 0.0F, -1.0F, 0.0F})));
}

TEST(Recipe, TwoValuesBroadcastLieAnyhowAndKeepTheirSides) {
  const at::Tensor x = at::randn({5, 3, 4}).transpose(0, 2);  // 4, 3, 5
  const at::Tensor factor = at::rand({4, 3, 1}).add(1);
  const std::vector<const void*> values = {x.const_data_ptr(), factor.const_data_ptr()};
  using enum Recipe::Operator;
  const std::array<std::pair<Recipe::Operator, at::Tensor>, 4> cases = {
      {{add, x + factor}, {sub, x - factor}, {mul, x * factor}, {div, x / factor}}};
  for (const auto& [op, expected] : cases) {
    const auto recipe = recipe_like(expected, x);
    add_step(recipe->value, op).others.push_back(value_of(1, factor));
    EXPECT_TRUE(same_bits(computed(*recipe, values), expected));
  }
  const auto reversed = recipe_like(x, x);
  Recipe::Step& step = add_step(reversed->value, div);
  step.others.push_back(value_of(1, factor));
  step.reversed = true;
  EXPECT_TRUE(same_bits(computed(*reversed, values), factor / x));
  const auto with_constant = recipe_like(x, x);
  Recipe::Value weight;
  weight.constant = {1, 2, 3, 4, 5};
  weight.start = contiguous({5});
  add_step(with_constant->value, mul).others.push_back(std::move(weight));
  EXPECT_TRUE(same_bits(computed(*with_constant, values), x * at::arange(1.0F, 6.0F)));
  EXPECT_EQ(with_constant->constant_bytes(), 5 * sizeof(float));
}

TEST(Recipe, TheSecondValueMayBeComputedToo) {
  const at::Tensor x = at::randn({7, 9});
  const at::Tensor y = at::randn({7, 9});
  const auto recipe = recipe_like(x, x);
  add_step(recipe->value, Recipe::Operator::gelu);
  Recipe::Step& sum = add_step(recipe->value, Recipe::Operator::add);
  sum.others.push_back(value_of(1, y));
  add_step(sum.others.front(), Recipe::Operator::silu);
  EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr(), y.const_data_ptr()}),
                        at::gelu(x) + at::silu(y)));
}

TEST(Recipe, MaxPoolsResultIsGathered) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor x = at::randn({2, 3, 7, 6}).contiguous(format);
    const auto [y, indices] = at::max_pool2d_with_indices(x, {3, 2}, {2, 2}, {1, 0});
    const auto recipe = recipe_like(y, x);
    Recipe::Step& step = add_step(recipe->value, Recipe::Operator::max_pool);
    step.indices = 1;
    const bool last = format == at::MemoryFormat::ChannelsLast;
    step.pool = {last ? 2 : 6, last ? 3 : 1, 42, y.size(2) * y.size(3)};
    EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr(), indices.const_data_ptr()}), y));
  }
}

TEST(Recipe, PartsAreJoinedAndViewsAreRead) {
  const at::Tensor x = at::randn({4, 3, 5});
  const at::Tensor y = at::randn({4, 5, 2});
  const at::Tensor expected = at::cat({at::silu(x).transpose(1, 2), y}, 2);
  const auto recipe = recipe_like(expected, x);
  Recipe::Value& joined = recipe->value;
  joined.source = -1;
  joined.start = layout_of(expected);
  joined.joined = 2;
  Recipe::Value activated;
  activated.source = 0;
  activated.start = activated.result = layout_of(x);
  add_step(activated, Recipe::Operator::silu);
  Recipe::Value turned;
  turned.start = layout_of(x.transpose(1, 2));
  turned.viewed = std::make_unique<Recipe::Value>(std::move(activated));
  joined.parts.push_back(std::move(turned));
  joined.parts.push_back(value_of(1, y));
  const std::vector<const void*> values = {x.const_data_ptr(), y.const_data_ptr()};
  EXPECT_TRUE(same_bits(computed(*recipe, values), expected));
  add_step(joined, Recipe::Operator::gelu);
  EXPECT_TRUE(same_bits(computed(*recipe, values), at::gelu(expected)));
}

TEST(Recipe, AViewOfASourceBeginsAtItsOffset) {
  const at::Tensor x = at::randn({6, 8});
  const at::Tensor part = x.slice(0, 1, 6, 2).slice(1, 3, 7);
  const auto recipe = recipe_like(part.contiguous(), part);
  recipe->value.offset = part.storage_offset();
  add_step(recipe->value, Recipe::Operator::copy);
  EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr()}), part));
}

TEST(Recipe, WhatResizesWritesNoElementThatItReads) {
  const at::Tensor x = at::randn({2, 3, 6, 6});
  const auto recipe = recipe_like(x, x);
  add_step(recipe->value, Recipe::Operator::gelu);
  Recipe::Step& average = add_step(recipe->value, Recipe::Operator::function);
  average.resizes = true;
  average.call = [](const Recipe::Step&, const at::Tensor& in, at::Tensor& out) {
    at::avg_pool2d_out(out, in, 3, 1, 1);  // the result has the operand's sizes
  };
  const at::Tensor expected = at::avg_pool2d(at::gelu(x), 3, 1, 1);
  EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr()}), expected));
}

TEST(Recipe, FusedAttentionGivesTorchsBits) {
  const auto heads = [](std::int64_t length) {  // as they lie in the output of a linear layer
    return at::randn({2, length, 3, 8}).transpose(1, 2);
  };
  const at::Tensor q = heads(37);
  const at::Tensor k = heads(41);
  const at::Tensor v = heads(41);
  const at::Tensor mask = at::randn({2, 1, 1, 41});
  const std::vector<const void*> values = {q.const_data_ptr(), k.const_data_ptr(),
                                           v.const_data_ptr(), mask.const_data_ptr()};
  for (const bool causal : {false, true}) {
    for (const double scale : {0.0, 0.7}) {
      for (const bool masked : {false, !causal}) {
        const auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0, causal, masked ? std::optional(mask) : std::nullopt,
            scale == 0 ? std::nullopt : std::optional(scale));
        const auto recipe = recipe_like(out, q);
        Recipe::Step& step = add_step(recipe->value, Recipe::Operator::attention);
        step.causal = causal;
        step.numbers = {scale};
        step.others.push_back(value_of(1, k));
        step.others.push_back(value_of(2, v));
        if (masked) step.others.push_back(value_of(3, mask));
        at::Tensor other;
        EXPECT_TRUE(same_bits(computed(*recipe, values, nullptr, &other), out));
        EXPECT_TRUE(same_bits(other, log_sum_exp));
        EXPECT_TRUE(recipe->is_attention());
        EXPECT_EQ(recipe->part(), AttentionPart::output);
        const auto output_key = recipe->key().words;

        step.part = AttentionPart::log_sum_exp;
        recipe->elements = log_sum_exp.numel();
        recipe->value.result = layout_of(log_sum_exp);
        EXPECT_TRUE(same_bits(computed(*recipe, values, nullptr, &other), log_sum_exp));
        EXPECT_TRUE(same_bits(other, out));
        EXPECT_NE(recipe->key().words, output_key);
      }
    }
  }
}

TEST(Recipe, ANumberMayBeTheLeftOperand) {
  const at::Tensor x = at::randn({6, 8});
  const at::Tensor y = 1 - at::silu(x);
  const auto recipe = recipe_like(y, x);
  add_step(recipe->value, Recipe::Operator::silu);
  Recipe::Step& difference = add_step(recipe->value, Recipe::Operator::sub);
  difference.reversed = true;
  difference.others.emplace_back().constant = {1};
  const std::vector<const void*> values = {x.const_data_ptr()};
  EXPECT_TRUE(same_bits(computed(*recipe, values), y));
}

/// f''(x) step^2 / 24 of each element, for steps of groups of `group` in x's order.
at::Tensor bias_of_gelu(const at::Tensor& x, const at::Tensor& steps, std::int64_t group) {
  const at::Tensor step = steps.repeat_interleave(group).slice(0, 0, x.numel()).view(x.sizes());
  const at::Tensor second = (x.square() / -2).exp() * 0.3989422804014327 * (2 - x.square());
  return second * step.square() / 24;
}

TEST(Recipe, BiasOfAnApproximatedSourceIsSubtracted) {
  const at::Tensor all = at::randn({6, 40});  // in groups of 32: the last one has 16
  const at::Tensor steps = at::rand({8});
  const auto* const first = steps.const_data_ptr<float>();
  const std::array errors = {SourceErrors{{first, first + steps.numel()}, 32, 240}};
  const at::Tensor bias = bias_of_gelu(all, steps, 32);
  struct Case {
    at::Tensor x;
    at::Tensor bias;
  };
  // As a whole, and the second half of each row, as a gated unit has it.
  for (const auto& [x, expected] : {Case{all, bias}, Case{all.slice(1, 20), bias.slice(1, 20)}}) {
    const at::Tensor y = at::gelu(x).contiguous();
    const auto recipe = recipe_like(y, x);
    recipe->value.offset = x.storage_offset();
    add_step(recipe->value, Recipe::Operator::gelu);
    at::Tensor out = at::empty_like(y);
    const std::vector<const void*> values = {all.const_data_ptr()};
    recipe->compute(host_arithmetic(), values, nullptr, out.data_ptr(), errors);
    EXPECT_TRUE(out.allclose(y - expected, 1e-5, 1e-6));
    // Only of the function that is applied to the source itself.
    recipe->value.steps.clear();
    add_step(recipe->value, Recipe::Operator::tanh);
    add_step(recipe->value, Recipe::Operator::gelu);
    const at::Tensor twice = at::gelu(at::tanh(x));
    recipe->compute(host_arithmetic(), values, nullptr, out.data_ptr(), errors);
    EXPECT_TRUE(out.allclose(twice, 1e-6, 1e-7));
  }
}

TEST(Recipe, GeluOfChannelsLastGivesTorchsBits) {
  const at::Tensor x = at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto recipe = recipe_like(x, x);
  add_step(recipe->value, Recipe::Operator::gelu);
  EXPECT_TRUE(same_bits(computed(*recipe, {x.const_data_ptr()}), at::gelu(x)));
}

}  // namespace
}  // namespace cinch::hooks
