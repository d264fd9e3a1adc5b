// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/decompositions.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

class NodesBefore : public testing::Test {
 protected:
  /// Whether the node that made `tensor` is one of those before the one that made `decomposed`.
  static bool are_before(const at::Tensor& decomposed, const at::Tensor& tensor) {
    const auto numbers = decompositions::nodes_before(*decomposed.grad_fn());
    const auto number = static_cast<std::uint32_t>(tensor.grad_fn()->sequence_nr());
    return std::ranges::find(numbers, number) != numbers.end();
  }

  at::Tensor weight = at::eye(8).requires_grad_();
  at::Tensor layer = at::rand({16, 8}).mm(weight);
  at::Tensor centred = layer - layer.mean(0, true);
  at::Tensor product = centred.t().mm(centred);
  at::Tensor matrix = product * 0.5 + at::eye(8);
};

TEST_F(NodesBefore, MadeTheMatrixUpToTheProductAndSomeBefore) {
  const at::Tensor factor = at::linalg_cholesky(matrix);
  EXPECT_TRUE(are_before(factor, matrix));
  EXPECT_TRUE(are_before(factor, product));
  EXPECT_TRUE(are_before(factor, centred));
}

TEST_F(NodesBefore, LeaveLayersOut) {
  EXPECT_FALSE(are_before(at::linalg_cholesky(matrix), layer));
  EXPECT_FALSE(are_before(at::linalg_inv(matrix.mm(weight)), product)) << "though of its size";
}

TEST_F(NodesBefore, GoOnThroughWhatANumberScales) {
  const at::Tensor scale = at::ones({}).requires_grad_();
  EXPECT_TRUE(are_before(at::linalg_inv(matrix * scale), product));
}

TEST_F(NodesBefore, AreOfAllOperands) {
  const at::Tensor right = layer.exp();
  EXPECT_TRUE(are_before(at::linalg_solve(matrix, right.narrow(0, 0, 8)), right));
}

TEST_F(NodesBefore, AreFew) {
  at::Tensor near = matrix;
  for (int i = 0; i < 12; ++i) near = near + 1;
  EXPECT_TRUE(are_before(at::linalg_inv(near), matrix));
  for (int i = 0; i < 12; ++i) near = near + 1;
  EXPECT_FALSE(are_before(at::linalg_inv(near), matrix));
}

TEST_F(NodesBefore, AreNoneOfAParameter) {
  EXPECT_TRUE(decompositions::nodes_before(*at::linalg_inv(weight).grad_fn()).empty());
}

}  // namespace
}  // namespace cinch::hooks
