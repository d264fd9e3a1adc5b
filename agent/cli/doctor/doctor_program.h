// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::cli {

/// The text of doctor_program.py.
const char* doctor_program() noexcept;

}  // namespace cinch::cli
