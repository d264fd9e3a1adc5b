// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cinch::hooks {

/// Runs `program` in the process's Python interpreter, in a namespace of its own, and returns the
/// text that it left in the variable `result`; "" when there is no Python, or the program failed
/// (nothing is printed, and no exception stays behind).
///
/// Waits for a thread that takes the interpreter's lock: call it only where any Python may run,
/// such as when a scope of the program's own begins, with no lock of Cinch's held. Other threads of
/// the program run meanwhile; signals wait for their handlers. Python's headers and libraries are
/// no dependency of Cinch: what is needed is looked up in the process.
std::string run_python(const char* program, const char* result);

/// Whether this thread holds the interpreter's lock; false in a process without Python.
bool holds_interpreter() noexcept;

}  // namespace cinch::hooks
