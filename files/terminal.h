// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cinch::files {

/// Makes untrusted text (from files, command lines, names of jobs) safe for a terminal: replaces
/// each control character (C0, DEL, C1, line separators, those that change the direction of
/// writing) and each byte that is no UTF-8 by '?'. The number of characters stays the same. All
/// such text must pass through here before people see it: say() does so itself, and so do the
/// command's Style, Table and watch's lines.
std::string printable(std::string_view text);
/// As printable(), but newlines stay.
std::string printable_lines(std::string_view text);

/// The text's lines, printable, each with "cinch: " before it and a newline after it.
std::string with_prefix(std::string_view text);
/// Writes with_prefix(text) to stderr. Says nothing when there is no memory for that.
void say(std::string_view text) noexcept;

}  // namespace cinch::files
