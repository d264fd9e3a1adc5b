// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/TensorImpl.h>

namespace cinch::hooks {

/// Whether Python code could not tell `tensor` from a new torch.Tensor of the same memory: its
/// class is torch.Tensor or torch.nn.Parameter, and it has no attributes of the program's own.
/// False if unknown, as on a thread that does not hold the interpreter's lock.
bool is_bare_in_python(const c10::TensorImpl& tensor) noexcept;

}  // namespace cinch::hooks
