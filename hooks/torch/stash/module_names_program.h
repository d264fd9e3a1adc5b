// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// module_names.py, embedded when Cinch is built.
const char* module_names_program() noexcept;

}  // namespace cinch::hooks
