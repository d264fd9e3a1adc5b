// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Turns a SavedVariable that the stash holds into an ordinary one with an uncompressed tensor, as
/// PyTorch's register_hooks expects. Leaves every other SavedVariable alone.
/// @throws std::exception when there is no memory; c10::Error when its values are not held
void give_back_to_autograd(void* saved_variable);

}  // namespace cinch::hooks
