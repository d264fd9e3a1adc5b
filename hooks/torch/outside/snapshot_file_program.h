// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// snapshot_file.py, embedded when Cinch is built.
const char* snapshot_file_program() noexcept;

}  // namespace cinch::hooks
