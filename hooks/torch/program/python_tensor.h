// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/TensorImpl.h>

namespace cinch::hooks {

/// Whether Python code sees nothing of `tensor` but what a new torch.Tensor of the same memory has:
/// it is of no other class (but torch.nn.Parameter), and has no attributes of the program's own.
/// False where that can't be told. @pre the interpreter's lock is held, or else the answer is false
bool is_bare_in_python(const c10::TensorImpl& tensor) noexcept;

}  // namespace cinch::hooks
