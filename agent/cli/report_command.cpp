// SPDX-License-Identifier: Apache-2.0
// cinch report: a report file, for the eye.

#include <cstdio>
#include <exception>

#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/render.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {

int show_report(const std::string& file) {
  std::string error;
  try {
    const auto report = telemetry::from_json(read_file(file), error);
    if (report) {
      std::fputs(render_report(*report, Style{colour_wanted(STDOUT_FILENO)}).c_str(), stdout);
      return 0;
    }
    error = file + ": " + error;
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  std::fprintf(stderr, "cinch: %s\n", error.c_str());
  return usage_error;
}

}  // namespace cinch::cli
