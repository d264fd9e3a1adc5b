// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/terminal.h"

namespace cinch::cli {

using files::printable;
using files::printable_lines;
using files::say;
using files::with_prefix;

/// Writes "cinch: " and the text, printable, to stderr, in red where colour is wanted.
void say_loudly(std::string_view text);

/// "412.3 MiB", "17 B".
std::string human_bytes(std::uint64_t bytes);

/// "3.1 s", "12 ms", "2 min 5 s".
std::string human_seconds(double seconds);

/// "11.4x"; "125x" from 100 on.
std::string human_ratio(double ratio);

/// human_ratio(raw / stored); "-" when nothing is stored.
std::string human_ratio(std::uint64_t raw, std::uint64_t stored);

/// A relative error or the like, with two significant digits.
std::string human_error(double error);

/// The number of UTF-8 characters: a terminal's columns, but for wide characters.
std::size_t width(std::string_view text);

/// The first `count` UTF-8 characters.
std::string_view first_characters(std::string_view text, std::size_t count);

/// Whether a byte of UTF-8 is the first one of a character.
inline bool begins_character(char c) {
  return (c & 0xC0) != 0x80;
}

/// "1 step", "60 steps".
std::string counted(std::uint64_t count, std::string_view noun);

enum class Shell { posix, fish };

/// `text` as one word for `shell`. In fish a backslash is special inside quotes, too.
std::string quoted(std::string_view text, Shell shell);

/// Whether text may carry escape sequences: on a terminal, unless NO_COLOR is set.
bool colour_wanted(int file_descriptor);

/// Adds emphasis where colour is wanted. Makes the text printable in any case.
struct Style {
  bool colour = false;

  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("1;31", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
};

/// Rows under a header. Columns are as wide as their widest cell; one whose header begins with '>'
/// is aligned to the right. Cells become printable.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  /// Every line begins with `indent` and ends in a newline.
  std::string render(std::string_view indent) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace cinch::cli
