// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/inferred_number.h"

#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

std::optional<float> infer(NumberForm form, const at::Tensor& x, const at::Tensor& y) {
  return inferred_number(form, x.scalar_type(), x.const_data_ptr(), y.const_data_ptr(), x.numel());
}

TEST(InferredNumber, IsTheOneThatWasUsed) {
  const at::Tensor x = at::randn({1000});
  EXPECT_EQ(infer(NumberForm::sum, x, x + 1), 1.0F);
  EXPECT_EQ(infer(NumberForm::sum, x, x + 1e-5), 1e-5F);
  EXPECT_EQ(infer(NumberForm::difference, x, x - 0.37), 0.37F);
  EXPECT_EQ(infer(NumberForm::remainder, x, 1 - x), 1.0F);
  EXPECT_EQ(infer(NumberForm::sum, x, x + 0.1234567), 0.1234567F);
}

TEST(InferredNumber, OfSixteenBits) {
  const at::Tensor x = at::randn({1000}).to(at::kBFloat16);
  EXPECT_EQ(infer(NumberForm::remainder, x, 1 - x), 1.0F);
  const at::Tensor half = x.to(at::kHalf);
  const auto found = infer(NumberForm::sum, half, half + 0.25);
  EXPECT_EQ(found, 0.25F);
}

TEST(InferredNumber, OfOtherTensorsThereIsNone) {
  const at::Tensor x = at::randn({1000});
  EXPECT_FALSE(infer(NumberForm::sum, x, at::randn({1000})));
  EXPECT_FALSE(infer(NumberForm::sum, x, x * 2));
  EXPECT_FALSE(infer(NumberForm::sum, x, at::full_like(x, NAN)));
  EXPECT_FALSE(infer(NumberForm::sum, at::empty({0}), at::empty({0})));
  EXPECT_FALSE(infer(NumberForm::sum, x.to(at::kDouble), x.to(at::kDouble)));
}

TEST(InferredNumber, AnyIsFoundWhereOneElementSaysAll) {
  const at::Tensor x = at::zeros({1});
  EXPECT_EQ(infer(NumberForm::sum, x, x + 3), 3.0F);
}

}  // namespace
}  // namespace cinch::hooks
