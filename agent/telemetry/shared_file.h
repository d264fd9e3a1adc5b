// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace cinch::telemetry {

/// Makes the file `path` of `bytes` zero bytes, mode 0600, with all of its memory allocated, and
/// maps it for reading and writing. Replaces an existing file: the path must be this process's
/// alone. Raises no signal. Null on failure: `error` says why, and no file stays behind.
/// @param step Called between any two steps; may be null.
void* make_shared_file(const std::string& path, std::size_t bytes, std::string& error,
                       void (*step)() = nullptr);

}  // namespace cinch::telemetry
