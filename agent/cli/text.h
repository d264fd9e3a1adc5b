// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::cli {

/// `text`, which may come from anywhere (files, command lines, names of jobs), as a terminal may be
/// given it:
/// '?' for each control character (C0, DEL, C1, those that turn the direction of writing) and for
/// each byte that is no UTF-8. As many characters as it had. What people are shown passes through
/// here: say(), Style, Table and watch's lines do it by themselves.
std::string printable(std::string_view text);
/// The same, of a text whose lines stay lines.
std::string printable_lines(std::string_view text);

/// Writes "cinch: " and the text, printable, to stderr; lines stay lines.
void say(std::string_view text);
/// The same, in red where colour is wanted.
void say_loudly(std::string_view text);

/// "412.3 MiB", "17 B".
std::string human_bytes(std::uint64_t bytes);

/// "3.1 s", "12 ms", "2 min 5 s".
std::string human_seconds(double seconds);

/// "11.4x"; "125x" from 100 on.
std::string human_ratio(double ratio);

/// The same of what is `stored` for `raw` bytes; "-" where nothing is.
std::string human_ratio(std::uint64_t raw, std::uint64_t stored);

/// A relative error or the like: two digits.
std::string human_error(double error);

/// Characters of UTF-8: as a terminal counts them, give or take wide ones.
std::size_t width(std::string_view text);

/// The first `count` characters, never half of one of UTF-8's.
std::string_view first_characters(std::string_view text, std::size_t count);

/// Whether a byte of UTF-8 is the first one of a character.
inline bool begins_character(char c) {
  return (c & 0xC0) != 0x80;
}

/// "1 step", "60 steps".
std::string counted(std::uint64_t count, std::string_view noun);

/// Whether text may carry escape sequences: on a terminal, unless NO_COLOR is set.
bool colour_wanted(int file_descriptor);

/// Emphasis, where colour is wanted, and the plain text elsewhere; printable in both cases.
struct Style {
  bool colour = false;

  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("1;31", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
};

/// Rows under a header, columns as wide as they need; a column whose header begins with '>' is
/// aligned to the right. Cells become printable.
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
