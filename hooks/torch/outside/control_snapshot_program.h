// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// control_snapshot.py, embedded when Cinch is built.
const char* control_snapshot_program() noexcept;

}  // namespace cinch::hooks
