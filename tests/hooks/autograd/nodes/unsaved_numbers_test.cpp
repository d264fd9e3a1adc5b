// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/unsaved_numbers.h"

#include <cstdint>
#include <limits>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

using at::native::wrapped_scalar_tensor;

at::Tensor variable() {
  return at::randn({4}).requires_grad_();
}

/// What is known of x + number, where PyTorch got the number as a tensor.
std::optional<double> known(const c10::Scalar& number) {
  const at::Tensor other = wrapped_scalar_tensor(number);
  const at::Tensor sum = variable() + other;
  unsaved_numbers::note(sum, other);
  return unsaved_numbers::find(*sum.grad_fn());
}

TEST(UnsavedNumbers, AreThoseOfTheOperator) {
  EXPECT_EQ(known(0.1), 0.1);
  EXPECT_EQ(known(std::int64_t{-3}), -3.0);
  const at::Tensor difference = at::rsub(variable(), 0.25);
  unsaved_numbers::note(difference, c10::Scalar(0.25));
  EXPECT_EQ(unsaved_numbers::find(*difference.grad_fn()), 0.25);
}

TEST(UnsavedNumbers, NoneIsKnownOfOtherOperands) {
  const at::Tensor other = at::scalar_tensor(2.0, at::kDouble);
  const at::Tensor sum = variable() + other;
  unsaved_numbers::note(sum, other);
  EXPECT_EQ(unsaved_numbers::find(*sum.grad_fn()), std::nullopt);
  const at::Tensor plain = at::randn({4}) + 1;
  unsaved_numbers::note(plain, c10::Scalar(1));  // has no node: must not fail
  EXPECT_EQ(known(std::numeric_limits<std::int64_t>::max()), std::nullopt);
  EXPECT_EQ(known(true), std::nullopt);
}

TEST(UnsavedNumbers, TheLatestAreKept) {
  const at::Tensor first = variable() + 1;
  unsaved_numbers::note(first, c10::Scalar(1));
  at::Tensor last;
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(unsaved_numbers::find(*first.grad_fn()), 1.0) << i;
    last = variable() + i;
    unsaved_numbers::note(last, c10::Scalar(i));
  }
  EXPECT_EQ(unsaved_numbers::find(*first.grad_fn()), std::nullopt);
  EXPECT_EQ(unsaved_numbers::find(*last.grad_fn()), 63.0);
}

// Nodes come and go at the same addresses.
TEST(UnsavedNumbers, AreNoOtherNodes) {
  for (int i = 0; i < 100; ++i) {
    const at::Tensor noted = variable() + i;
    if (i % 2 == 0) unsaved_numbers::note(noted, c10::Scalar(i));
    const auto expected = i % 2 == 0 ? std::optional(static_cast<double>(i)) : std::nullopt;
    EXPECT_EQ(unsaved_numbers::find(*noted.grad_fn()), expected);
  }
}

}  // namespace
}  // namespace cinch::hooks
