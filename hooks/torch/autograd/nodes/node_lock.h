// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include <torch/csrc/autograd/function.h>

#include "hooks/torch/autograd/nodes/members.h"

namespace cinch::hooks {

/// Tries to lock a node. Never waits: a thread that runs the node or releases its saved variables
/// may wait for the interpreter, whose lock this thread may hold.
class NodeLock {
 public:
  explicit NodeLock(torch::autograd::Node& node)
      : lock_(members::mutex_of(node), std::try_to_lock) {}
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace cinch::hooks
