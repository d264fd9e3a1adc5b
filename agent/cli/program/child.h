// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace cinch::cli {

/// A program to start.
struct Command {
  std::vector<std::string> arguments;  ///< the program's name first, looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  ///< set over our own
  std::string output = {};        ///< file for stdout and stderr; "": the program inherits ours
  bool output_to_stderr = false;  ///< its stdout is our stderr
  int output_file = -1;           ///< our descriptor for its stdout and stderr; -1: none
  /// Called a few times a second while the program runs; once it returns true, the program is sent
  /// SIGTERM, and SIGKILL if it is still there ten seconds later. Null: never.
  std::function<bool()> look = nullptr;
};

/// How a child ended.
struct ChildResult {
  pid_t pid = 0;
  /// As in a shell: the exit status, 128 + the signal that killed it, 127 when the program was not
  /// found, 126 when it could not be run.
  int status = 0;
  bool started = false;
  std::string error;  ///< why it could not be started, one line
};

/// Runs `command` and waits for its end. Meanwhile forwards every signal that this process gets to
/// the child, but for those that a terminal sends to both. After SIGTSTP, SIGTTIN or SIGTTOU this
/// process stops once the child has stopped, and both continue together. From the first call on,
/// this process ignores SIGPIPE; its children do not.
ChildResult run_child(const Command& command);

}  // namespace cinch::cli
