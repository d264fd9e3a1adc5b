// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace cinch::telemetry {

/// Makes the file `path`, of `bytes` zero bytes and mode 0600, with all of its memory there, and
/// maps it for reading and writing. A file that lies there already is replaced: the path has to be
/// this process's alone. Raises no signal. Null when it is not possible, for whatever reason, and
/// then no file stays behind: `error` says why.
/// @param step Called between any two steps; may be null.
void* make_shared_file(const std::string& path, std::size_t bytes, std::string& error,
                       void (*step)() = nullptr);

}  // namespace cinch::telemetry
