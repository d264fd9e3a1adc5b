// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/linear_outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

class LinearOutput : public testing::Test {
 protected:
  at::Tensor layer(const at::Tensor& of) const { return at::linear(of, weight, bias); }

  at::Tensor weight = at::rand({8, 8}).requires_grad_();
  at::Tensor bias = at::rand({8}).requires_grad_();
  at::Tensor input = at::rand({2, 6, 8});
  at::Tensor with_bias = layer(input);
  at::Tensor without = at::linear(input, weight);
};

TEST_F(LinearOutput, IsThatOfALinearLayerWithAndWithoutBias) {
  EXPECT_TRUE(is_linear_output(with_bias));
  EXPECT_TRUE(is_linear_output(without));
  EXPECT_TRUE(is_linear_output(layer(at::rand({6, 8}))));
}

TEST_F(LinearOutput, StaysOneWhenMovedOrScaled) {
  EXPECT_TRUE(is_linear_output(with_bias.chunk(2, 2)[1])) << "a gate of a fused projection";
  EXPECT_TRUE(is_linear_output(with_bias.view({2, 6, 2, 4}).transpose(1, 2).contiguous()));
  EXPECT_TRUE(is_linear_output(without.to(at::kBFloat16)));
  EXPECT_TRUE(is_linear_output(without * 0.5));
  EXPECT_TRUE(is_linear_output(at::cat({at::rand({2, 1, 8}), without}, 1))) << "a cache";
}

TEST_F(LinearOutput, MayHaveAnAdapter) {
  const at::Tensor adapter = at::linear(at::linear(input, weight), weight);
  EXPECT_TRUE(is_linear_output(with_bias + adapter * 2));
}

TEST_F(LinearOutput, MayHaveRotaryPositions) {
  const at::Tensor cos = at::rand({6, 8}), sin = at::rand({6, 8});
  const auto halves = without.chunk(2, 2);
  EXPECT_TRUE(is_linear_output(without * cos + at::cat({-halves[1], halves[0]}, 2) * sin));
}

TEST_F(LinearOutput, IsNoActivationNoProductAndNoNorm) {
  EXPECT_FALSE(is_linear_output(at::silu(with_bias)));
  EXPECT_FALSE(is_linear_output(with_bias * layer(input)));
  EXPECT_FALSE(is_linear_output(at::layer_norm(with_bias, {8})));
}

TEST_F(LinearOutput, IsNoResidualSum) {
  EXPECT_FALSE(is_linear_output(input + with_bias)) << "of what needs no gradient";
  EXPECT_FALSE(is_linear_output(with_bias + at::tanh(with_bias)));
  at::Tensor stream = with_bias;
  for (int i = 0; i < 3; ++i) stream = stream + layer(stream);
  EXPECT_FALSE(is_linear_output(stream));
}

TEST_F(LinearOutput, IsNoLeafAndNoConvolution) {
  EXPECT_FALSE(is_linear_output(weight));
  EXPECT_FALSE(is_linear_output(input));
  const at::Tensor kernel = at::rand({8, 6, 3}).requires_grad_();
  EXPECT_FALSE(is_linear_output(at::conv1d(input, kernel)));
}

}  // namespace
}  // namespace cinch::hooks
