// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/node_callback.h"

#include "hooks/torch/process/fork.h"

namespace cinch::hooks {

void NodeCallback::add(at::RecordFunctionCallback::StartCallback start) {
  register_fork_lock(mutex_);
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(start).needsInputs(true).scopes(
      {at::RecordScope::BACKWARD_FUNCTION}));
  at::disableCallback(handle_);
  installed_ = true;
}

void NodeCallback::switch_to(bool on) noexcept {
  const std::lock_guard lock(mutex_);
  if (!installed_ || on == on_) return;
  on_ = on;
  if (on) {
    at::reenableCallback(handle_);
  } else {
    at::disableCallback(handle_);
  }
}

}  // namespace cinch::hooks
