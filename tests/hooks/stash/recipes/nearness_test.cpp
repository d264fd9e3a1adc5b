// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/nearness.h"

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

bool near(const at::Tensor& computed, const at::Tensor& actual) {
  return are_near(computed.flatten(), actual.flatten()).item<bool>();
}

/// Batch norm in two orders of roundings, computed in `type` or, where that has 16 bits, in
/// float32.
struct TwoNorms {
  explicit TwoNorms(c10::ScalarType type) {
    const auto computes_in = type == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor x = at::randn({4096, 8}, computes_in) * 2 + 3;
    mean = x.mean(0);
    rstd = at::rsqrt(x.var(0) + 1e-5);
    weight = at::rand({8}, computes_in) + 0.5;
    const at::Tensor factor = weight * rstd;
    one = ((x - mean) * rstd * weight).to(type);
    other = (x * factor - mean * factor).to(type);
    without_weight = ((x - mean) * rstd).to(type);
    wrong_mean = ((x - mean - 0.02) * rstd * weight).to(type);
  }
  at::Tensor mean, rstd, weight, one, other, without_weight, wrong_mean;
};

class Nearness : public testing::TestWithParam<c10::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, Nearness,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& each) { return c10::toString(each.param); });

TEST_P(Nearness, AnotherOrderOfRoundingsIsNear) {
  at::manual_seed(1);
  const TwoNorms norms(GetParam());
  ASSERT_FALSE(at::equal(norms.one, norms.other));
  EXPECT_TRUE(near(norms.other, norms.one));
  EXPECT_TRUE(near(norms.one, norms.one));
}

TEST_P(Nearness, AnotherConstantIsNot) {
  at::manual_seed(1);
  const TwoNorms norms(GetParam());
  EXPECT_FALSE(near(norms.without_weight, norms.one));
  EXPECT_FALSE(near(norms.wrong_mean, norms.one));
}

TEST_P(Nearness, AnotherLayoutIsNot) {
  at::manual_seed(1);
  const TwoNorms norms(GetParam());
  EXPECT_FALSE(near(norms.one.t().contiguous(), norms.one));
}

TEST(Nearness, AConstantsSixthDigitCounts) {
  const at::Tensor y = at::randn({1000});
  EXPECT_FALSE(near(y * 1.00001, y));
  EXPECT_TRUE(near(y * 1.0000001, y));
}

TEST(Nearness, OneValueIsEnough) {
  const at::Tensor y = at::ones({1000});
  const at::Tensor off = y.clone();
  off[500] = 1.001;
  EXPECT_FALSE(near(off, y));
}

TEST(Nearness, EachPartOfALargeTensorCounts) {
  const at::Tensor y = at::ones({3'000'001});
  EXPECT_TRUE(near(y, y));
  for (const int where : {0, 1'000'000, 3'000'000}) {
    const at::Tensor off = y.clone();
    off[where] = 1.001;
    EXPECT_FALSE(near(off, y)) << where;
  }
}

// Near what is large elsewhere in the tensor.
TEST(Nearness, TheLargestValueIsThatOfTheWhole) {
  at::Tensor y = at::ones({1'000'000});
  const at::Tensor off = y.clone();
  off[999'999] = 1.001;
  y[0] = off[0] = -1e6;
  EXPECT_TRUE(near(off, y));
}

TEST(Nearness, WhatIsNotFiniteIsNearNothing) {
  const at::Tensor y = at::ones({10});
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor off = y.clone();
    off[3] = value;
    EXPECT_FALSE(near(off, y));
    EXPECT_FALSE(near(y, off));
    EXPECT_FALSE(near(off + 1e-7, off));
  }
}

TEST(Nearness, ZerosAreNearZeros) {
  const at::Tensor zeros = at::zeros({10});
  EXPECT_TRUE(near(-zeros, zeros));
  EXPECT_FALSE(near(zeros + 1e-20, zeros));
}

}  // namespace
}  // namespace cinch::hooks
