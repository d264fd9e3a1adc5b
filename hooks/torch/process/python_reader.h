// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Whether the SavedVariable that is being unpacked on this thread is read by Python code (through
/// grad_fn._saved_… or ctx.saved_tensors) and not by a node of PyTorch's own. A few nanoseconds
/// where the interpreter's lock is not held, as in PyTorch's nodes.
/// @pre called from an unpack hook
bool is_read_by_python() noexcept;

}  // namespace cinch::hooks
