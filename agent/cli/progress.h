// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include <unistd.h>

namespace cinch::cli {

/// A progress line: the last line on a terminal, redrawn in place, and erased when the work is
/// done. Writes nothing when the file is no terminal, or one that can't redraw a line (TERM unset
/// or "dumb"). Thread-safe.
class Progress {
 public:
  explicit Progress(int file = STDERR_FILENO);
  /// Erases the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether there is a terminal to draw on.
  bool active() const noexcept { return active_; }

  /// Draws the line, cut to the terminal's width. Does nothing while the output passed on last is
  /// an unfinished line, which may be the program's own progress.
  void show(std::string_view text);
  /// As show, followed by the time since construction: "text (12 s)".
  void show_with_time(std::string_view text);
  /// Erases the line.
  void clear();
  /// Erases the line and prints a program's output; the next show() draws the line below.
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
