// SPDX-License-Identifier: Apache-2.0
//
// What a device computes by PyTorch's operators, here on the host, where they have the same bits as
// the kernels that the host's recipes call. Norms take CUDA's batch_norm_elemt and a kernel of
// Cinch's own, masks another: tests/e2e/fake_cuda/test_cuda_derived.py has them.
#include "hooks/torch/stash/recipes/device_arithmetic.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/recipes/host_arithmetic.h"
#include "tests/hooks/same_bits.h"

namespace cinch::hooks {
namespace {

class DeviceArithmeticTest : public testing::Test {
 protected:
  /// A recipe of one step, whose result is as `like` is.
  Recipe::Step& begin(Recipe::Operator op, const at::Tensor& x, const at::Tensor& like) {
    recipe.elements = like.numel();
    recipe.value.source = 0;
    recipe.value.start = layout_of(x);
    recipe.value.start_type = x.scalar_type();
    recipe.value.result = layout_of(like);
    recipe.type = like.scalar_type();
    recipe.value.steps.clear();
    Recipe::Step& step = recipe.value.steps.emplace_back();
    step.op = op;
    step.type = like.scalar_type();
    return step;
  }
  at::Tensor computed(const Arithmetic& arithmetic, const std::vector<const void*>& values,
                      const void* mask = nullptr) const {
    const Layout& layout = recipe.value.result;
    at::Tensor out =
        at::empty_strided(layout.sizes, layout.strides, at::TensorOptions().dtype(recipe.type));
    recipe.compute(arithmetic, values, static_cast<const std::byte*>(mask), out.data_ptr());
    return out;
  }
  /// Whether both have the same bits.
  bool agree(const std::vector<const void*>& values) const {
    const DeviceArithmetic device(c10::kCPU);
    return same_bits(computed(device, values), computed(host_arithmetic(), values));
  }

  Recipe recipe;
  const BelowProgram guard;
};

TEST_F(DeviceArithmeticTest, Activations) {
  using enum Recipe::Operator;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::randn({7, 33}).to(type);
    for (const auto op : {gelu, silu, relu, tanh}) {
      begin(op, x, x);
      EXPECT_TRUE(agree({x.const_data_ptr()})) << static_cast<int>(op) << ' ' << type;
    }
  }
}

TEST_F(DeviceArithmeticTest, TwoValuesKeepTheirSides) {
  const at::Tensor x = at::randn({5, 3, 4}).transpose(0, 2);
  const at::Tensor factor = at::rand({4, 3, 1}).add(1);
  using enum Recipe::Operator;
  for (const auto op : {add, sub, mul, div}) {
    for (const bool reversed : {false, true}) {
      Recipe::Step& step = begin(op, x, x);
      step.reversed = reversed;
      Recipe::Value& other = step.others.emplace_back();
      other.source = 1;
      other.start = other.result = layout_of(factor);
      EXPECT_TRUE(agree({x.const_data_ptr(), factor.const_data_ptr()}));
    }
  }
}

TEST_F(DeviceArithmeticTest, SumsAndProductsWithAFactor) {
  const at::Tensor x = at::randn({5, 7});
  const at::Tensor y = at::randn({5, 7});
  const at::Tensor z = at::randn({1, 7});
  const DeviceArithmetic device(c10::kCPU);
  const auto value = [](int source, const at::Tensor& of) {
    Recipe::Value made;
    made.source = source;
    made.start = made.result = layout_of(of);
    return made;
  };
  Recipe::Step& sum = begin(Recipe::Operator::sub, x, x);
  sum.numbers = {0.3};
  sum.others.push_back(value(1, y));
  EXPECT_TRUE(
      same_bits(computed(device, {x.const_data_ptr(), y.const_data_ptr()}), at::sub(x, y, 0.3)));
  sum.reversed = true;
  EXPECT_TRUE(
      same_bits(computed(device, {x.const_data_ptr(), y.const_data_ptr()}), at::sub(y, x, 0.3)));
  Recipe::Step& product = begin(Recipe::Operator::addcmul, x, x);
  product.numbers = {0.7};
  product.others.push_back(value(1, y));
  product.others.push_back(value(2, z));
  EXPECT_TRUE(
      same_bits(computed(device, {x.const_data_ptr(), y.const_data_ptr(), z.const_data_ptr()}),
                at::addcmul(x, y, z, 0.7)));
}

TEST_F(DeviceArithmeticTest, ANumberKeepsItsPrecision) {
  const at::Tensor x = at::randn({100}).to(at::kBFloat16);
  Recipe::Step& step = begin(Recipe::Operator::mul, x, x);
  step.others.emplace_back().on_device = at::scalar_tensor(0.1, at::kDouble);
  const DeviceArithmetic device(c10::kCPU);
  EXPECT_TRUE(same_bits(computed(device, {x.const_data_ptr()}), x * 0.1));
}

TEST_F(DeviceArithmeticTest, DropoutScalesWhatItsMaskKeeps) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor x = at::randn({7, 33}).to(type);
    const at::Tensor mask = at::rand({7, 33}).gt(0.3);
    const auto scale = static_cast<double>(1 / 0.7F);
    Recipe::Step& step = begin(Recipe::Operator::dropout, x, x);
    step.numbers = {scale};
    Recipe::Value& flags = step.others.emplace_back();
    flags.source = 1;
    flags.start_type = at::kBool;
    flags.start = layout_of(mask);
    const DeviceArithmetic device(c10::kCPU);
    EXPECT_TRUE(same_bits(computed(device, {x.const_data_ptr(), mask.const_data_ptr()}),
                          at::native_dropout_backward(x, mask, scale)));
  }
}

// Signs of the values as they were: inexact sources may be on the other side, infinite, or not a
// number.
TEST_F(DeviceArithmeticTest, Pools) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor x = at::randn({2, 3, 7, 6}).contiguous(format);
    const auto [y, indices] = at::max_pool2d_with_indices(x, {3, 2}, {2, 2}, {1, 0});
    Recipe::Step& step = begin(Recipe::Operator::max_pool, x, y);
    step.indices = 1;
    const bool last = format == at::MemoryFormat::ChannelsLast;
    step.pool = {last ? 2 : 6, last ? 3 : 1, 42, y.size(2) * y.size(3)};
    EXPECT_TRUE(agree({x.const_data_ptr(), indices.const_data_ptr()}));
  }
}

TEST_F(DeviceArithmeticTest, RowsRoll) {
  const at::Tensor x = at::randn({2, 3, 5, 4});
  begin(Recipe::Operator::roll, x, x).shifts = {0, 2, 1, 3};
  EXPECT_TRUE(agree({x.const_data_ptr()}));
  begin(Recipe::Operator::copy, x.transpose(1, 2), x.transpose(1, 2).contiguous());
  EXPECT_TRUE(agree({x.const_data_ptr()}));
}

TEST_F(DeviceArithmeticTest, AnIndexPicksPlacesInOneOrMoreDimensions) {
  const at::Tensor x = at::randn({2, 5, 3});
  const at::Tensor index = at::randint(5, {6}, at::kInt);
  const at::Tensor picked = x.index_select(1, index);
  for (const at::Tensor& y : {picked, picked.view({2, 2, 3, 3})}) {
    Recipe::Step& step = begin(Recipe::Operator::gather, x, y);
    step.index = index;
    step.dim = 1;
    const DeviceArithmetic device(c10::kCPU);
    EXPECT_TRUE(same_bits(computed(device, {x.const_data_ptr()}), y));
  }
}

// Of as many places as there are, so that the result could lie where the operand does.
TEST_F(DeviceArithmeticTest, WhatIsPickedOutOfAComputedValueLiesElsewhere) {
  const at::Tensor x = at::randn({4, 3});
  begin(Recipe::Operator::gelu, x, x);
  Recipe::Step& step = recipe.value.steps.emplace_back();
  step.op = Recipe::Operator::gather;
  step.index = at::tensor({3, 2, 1, 0}, at::kInt);
  EXPECT_TRUE(agree({x.const_data_ptr()}));
  const DeviceArithmetic device(c10::kCPU);
  EXPECT_TRUE(same_bits(computed(device, {x.const_data_ptr()}), at::gelu(x).flip(0)));
}

TEST_F(DeviceArithmeticTest, ConstantsAreVisitedAndCounted) {
  const at::Tensor x = at::randn({4, 4});
  Recipe::Step& step = begin(Recipe::Operator::row_norm, x, x);
  step.mean.held = step.rstd.held = at::zeros({4});
  step.weight = at::ones({4});
  Recipe::Step& product = recipe.value.steps.emplace_back();
  product.op = Recipe::Operator::mul;
  product.others.emplace_back().on_device = at::ones({2});
  Recipe::Step& picked = recipe.value.steps.emplace_back();
  picked.op = Recipe::Operator::gather;
  picked.index = at::zeros({3}, at::kInt);
  EXPECT_EQ(recipe.constant_bytes(), (4 + 4 + 4 + 2 + 3) * sizeof(float));
  const auto visited = [&](Recipe::Tensors which) {
    int count = 0;
    recipe.for_each(which, [&](at::Tensor&) { ++count; });
    return count;
  };
  EXPECT_EQ(visited(Recipe::Tensors::constants), 3);
  EXPECT_EQ(visited(Recipe::Tensors::all), 5);
}

}  // namespace
}  // namespace cinch::hooks
