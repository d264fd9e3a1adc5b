// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// wrapper_tensor.py, embedded when Cinch is built.
const char* wrapper_tensor_program() noexcept;

}  // namespace cinch::hooks
