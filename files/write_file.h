// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cinch::files {

/// Replaces the content of the file `path` by `text`, in one step: readers see the old file or the
/// new one, also after a failure. Several processes may write the same path.
///
/// A new file gets mode 0600; an existing one keeps its owner and mode. Symbolic links are
/// followed. Other things than regular files (a device, a FIFO, any path by way of /dev/fd or
/// /proc) are written to directly. Raises no signal: neither SIGPIPE nor SIGXFSZ.
/// @return one line for people about what went wrong, or ""
std::string write_file(std::string_view text, const std::string& path) noexcept;

}  // namespace cinch::files
