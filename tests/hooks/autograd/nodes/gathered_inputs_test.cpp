// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/gathered_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

at::Tensor computed_rows() {
  return at::randn({4, 3}).requires_grad_() * 2;
}

at::Tensor picked_of(const at::Tensor& input) {
  const at::Tensor picked = input.index_select(0, at::zeros({9}, at::kLong));
  gathered_inputs::note(picked, input);
  return picked;
}

TEST(GatheredInputs, AreKnownByTheNode) {
  const at::Tensor input = computed_rows();
  const at::Tensor picked = picked_of(input);
  EXPECT_TRUE(gathered_inputs::find(*picked.grad_fn()).is_same(input));
  const at::Tensor other = input.index_select(0, at::zeros({9}, at::kLong));
  EXPECT_FALSE(gathered_inputs::find(*other.grad_fn()).defined()) << "was not noted";
}

TEST(GatheredInputs, AreNotKeptAlive) {
  at::Tensor input = computed_rows();
  const at::Tensor picked = picked_of(input);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(input.storage().getWeakStorageImpl());
  input.reset();
  EXPECT_TRUE(storage.expired());
  EXPECT_FALSE(gathered_inputs::find(*picked.grad_fn()).defined());
}

TEST(GatheredInputs, ThatChangedAreNotKnown) {
  const at::Tensor input = computed_rows();
  const at::Tensor picked = picked_of(input);
  const at::NoGradGuard guard;
  input.add_(1);
  EXPECT_FALSE(gathered_inputs::find(*picked.grad_fn()).defined());
}

TEST(GatheredInputs, OfTheProgramAreNotNoted) {
  const at::Tensor leaf = at::randn({4, 3}).requires_grad_();
  EXPECT_FALSE(gathered_inputs::find(*picked_of(leaf).grad_fn()).defined());
  picked_of(at::randn({4, 3}));  // has no node: must not fail
}

}  // namespace
}  // namespace cinch::hooks
