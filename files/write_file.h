// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cinch::files {

/// Replaces the content of the file `path` by `text`, in one step: whoever reads it, and whatever
/// goes wrong, finds the old file or the new one. Several processes may write the same path.
///
/// A new file is its owner's alone (mode 0600); one that was there keeps its owner and mode.
/// Symbolic links are followed. What exists and is no regular file (a device, a FIFO, anything by
/// way of /dev/fd or /proc) is written to as it is. Raises no signal: neither SIGPIPE nor SIGXFSZ.
/// @return one line for people about what went wrong, or ""
std::string write_file(std::string_view text, const std::string& path) noexcept;

}  // namespace cinch::files
