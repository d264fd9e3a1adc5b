// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// snapshot_request.py, embedded when Cinch is built.
const char* snapshot_request_program() noexcept;

}  // namespace cinch::hooks
