// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/parameter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>  // grad_fn() needs the whole type since torch 2.14

namespace cinch::hooks {
namespace {

at::Tensor parameter() {
  return at::randn({8, 8}).requires_grad_();
}

TEST(DerivesFromParameter, TheParameterItself) {
  EXPECT_TRUE(derives_from_parameter(parameter()));
}

TEST(DerivesFromParameter, ViewsAndCastsOfOne) {
  const at::Tensor w = parameter();
  EXPECT_TRUE(derives_from_parameter(w.t()));
  EXPECT_TRUE(derives_from_parameter(w.view({64})));
  EXPECT_TRUE(derives_from_parameter(w.slice(0, 0, 4).transpose(0, 1)));
  EXPECT_TRUE(derives_from_parameter(w.to(at::kBFloat16)));
  EXPECT_TRUE(derives_from_parameter(w.to(at::kBFloat16).t()));
  EXPECT_TRUE(derives_from_parameter(w.expand({3, 8, 8})));
}

TEST(DerivesFromParameter, LazyConjugatesOfOne) {
  const at::Tensor w = at::randn({8, 8}, at::kComplexFloat).requires_grad_();
  EXPECT_TRUE(derives_from_parameter(w.conj()));
  EXPECT_TRUE(derives_from_parameter(at::view_as_real(w)));
  EXPECT_FALSE(derives_from_parameter(w.conj() * 2));
}

TEST(DerivesFromParameter, NotWhatIsComputedFromOne) {
  const at::Tensor w = parameter();
  EXPECT_FALSE(derives_from_parameter(w * 2));
  EXPECT_FALSE(derives_from_parameter((w * 2).t()));
  EXPECT_FALSE(derives_from_parameter(w.matmul(w)));
  EXPECT_FALSE(derives_from_parameter(w.clone()));
}

TEST(DerivesFromParameter, NotDataThatNeedsNoGradient) {
  EXPECT_FALSE(derives_from_parameter(at::randn({8, 8})));
  EXPECT_FALSE(derives_from_parameter(at::randn({8, 8}).t()));
  EXPECT_FALSE(derives_from_parameter(parameter().detach()));
}

}  // namespace
}  // namespace cinch::hooks
