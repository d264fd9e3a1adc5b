// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Whether Python code (through grad_fn._saved_… or ctx.saved_tensors), and not a node of
/// PyTorch's, reads the SavedVariable that this thread unpacks. Takes a few nanoseconds if the
/// interpreter's lock is not held, as in PyTorch's nodes.
/// @pre called from an unpack hook
bool is_read_by_python() noexcept;

}  // namespace cinch::hooks
