// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/register_hooks.h"

#include <memory>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/autograd/held_tensor.h"

namespace cinch::hooks {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

// SavedVariable has no way to take hooks off again. Access checks don't apply to explicit template
// instantiations ([temp.spec]/6), which gives us the two members without assuming their offsets.
template <typename Tag, typename Tag::Member member>
struct Expose {
  friend typename Tag::Member member_of(Tag) { return member; }
};
struct Hooks {
  using Member = std::unique_ptr<SavedVariableHooks> SavedVariable::*;
  friend Member member_of(Hooks);
};
struct Data {
  using Member = at::Tensor SavedVariable::*;
  friend Member member_of(Data);
};
template struct Expose<Hooks, &SavedVariable::hooks_>;
template struct Expose<Data, &SavedVariable::data_>;

}  // namespace

void give_back_to_autograd(void* saved_variable) {
  auto& saved = *static_cast<SavedVariable*>(saved_variable);
  auto& hooks = saved.*member_of(Hooks{});
  auto* held = dynamic_cast<HeldTensor*>(hooks.get());
  if (held == nullptr) return;
  saved.*member_of(Data{}) = held->restore_for_program();
  hooks.reset();
}

}  // namespace cinch::hooks
