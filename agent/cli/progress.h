// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include <unistd.h>

namespace cinch::cli {

/// One line on a terminal that says what takes so long: the last line, drawn over and over, and
/// gone when the work is done. Writes nothing where the file is no terminal, or one that can't do
/// that (TERM unset or "dumb"). Thread-safe.
class Progress {
 public:
  explicit Progress(int file = STDERR_FILENO);
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether there is a terminal to draw on.
  bool active() const noexcept { return active_; }

  /// Draws the line, cut to the terminal's width. Not while what was passed on last is no whole
  /// line: a program's own progress stays what it is.
  void show(std::string_view text);
  /// As show, followed by the time since this was made: "text (12 s)".
  void show_with_time(std::string_view text);
  /// Takes the line away.
  void clear();
  /// Passes a program's output on, above the line.
  void pass(std::string_view output);

 private:
  void clear_locked();
  void write_all(std::string_view bytes) const;

  const int file_;
  const bool active_;
  const bool colour_;
  const double began_;
  std::mutex mutex_;
  std::string drawn_;  // "": no line is there
  bool at_line_start_ = true;
};

}  // namespace cinch::cli
