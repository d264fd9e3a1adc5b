// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/function.h>

/// Which backward nodes save under the program's own saved-tensor hooks (torch.autograd.graph's,
/// non-reentrant torch.utils.checkpoint's). Running such a node once more would call these hooks
/// once more, which they may refuse. Thread-safe.
namespace cinch::hooks {

/// Whether PyTorch's default hooks on this thread are the program's own, or must be none: while
/// tracing, and where the program disabled them.
bool users_hooks_in_force();

/// The node that this thread is making saves under the program's hooks.
void note_users_hooks() noexcept;

/// The program registers hooks with a saved tensor of some node, any.
void note_registered_hooks() noexcept;

/// Whether the program's hooks may be called when `node` runs. May be wrong for a node only if more
/// than 2^18 nodes of its thread were made since.
bool may_call_users_hooks(const torch::autograd::Node& node) noexcept;

}  // namespace cinch::hooks
