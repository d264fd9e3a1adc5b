// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Makes a SavedVariable that the stash holds an ordinary one again, its tensor uncompressed, so
/// that PyTorch's register_hooks finds what it expects. Leaves every other one alone.
/// @throws std::exception when there is no memory; c10::Error when its values are not held
void give_back_to_autograd(void* saved_variable);

}  // namespace cinch::hooks
