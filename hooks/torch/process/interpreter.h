// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cinch::hooks {

/// Runs `program` in the process's Python interpreter, in a namespace of its own, and returns the
/// text that it left in the variable `result`. Returns "" if there is no Python or the program
/// failed (nothing is printed, and no exception is left pending).
///
/// Waits for a thread that takes the interpreter's lock. Other threads of the program may run
/// meanwhile; signals wait for their handlers. Looks up Python's functions in the process, as Cinch
/// does not depend on Python's headers and libraries.
/// @pre any Python may run here, as when a scope of the program begins; no lock of Cinch's is held
std::string run_python(const char* program, const char* result);

/// Whether this thread holds the interpreter's lock; false in a process without Python.
bool holds_interpreter() noexcept;

}  // namespace cinch::hooks
