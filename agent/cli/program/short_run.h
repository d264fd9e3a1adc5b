// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/telemetry/layout.h"
#include "agent/telemetry/report.h"

namespace cinch::cli {

/// A program that is run under Cinch until a report says what was to be found out.
struct ShortRun {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< beside the library and report
  bool (*is_complete)(const telemetry::Report& report) = nullptr;
  /// What the program has to get through, for messages: "its second step was over".
  std::string until;
  /// The progress line. @param live The figures of the process that came farthest; null: none yet
  std::function<std::string(const telemetry::LiveFigures* live)> stage;
  bool keep_running = false;  ///< let the program go on to its own end
};

/// How it ended.
struct ShortRunOutcome {
  int status = 0;  ///< cinch's; with a report 0, or the program's if it kept running
  std::optional<telemetry::Report> report;  ///< complete; the largest of several processes'
  std::string error;                        ///< one line when there is no report
};

/// Runs the program, and ends it by SIGTERM once a report is complete, unless `keep_running`. The
/// program's stdout goes to stderr: stdout is for the result.
ShortRunOutcome run_short(const ShortRun& run);

/// What is wrong with the policies (presets' names, or paths), one line, or "".
std::string problem_of(const std::vector<std::string>& policies);

/// The policies' names; if there are none, those of all presets but "off".
std::vector<std::string> or_all_presets(const std::vector<std::string>& policies);

}  // namespace cinch::cli
