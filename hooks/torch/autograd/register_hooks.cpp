// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/register_hooks.h"

#include "hooks/torch/autograd/held/held.h"
#include "hooks/torch/autograd/nodes/members.h"
#include "hooks/torch/program/users_hooks.h"

namespace cinch::hooks {
void give_back_to_autograd(void* saved_variable) {
  note_registered_hooks();
  auto& saved = *static_cast<torch::autograd::SavedVariable*>(saved_variable);
  auto& hooks = members::hooks_of(saved);
  auto* held = dynamic_cast<Held*>(hooks.get());
  if (held == nullptr) return;
  members::data_of(saved) = held->restore(Reader::program);
  hooks.reset();
}

}  // namespace cinch::hooks
