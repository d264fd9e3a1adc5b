// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/cli/text.h"
#include "agent/telemetry/report.h"

namespace cinch::cli {

struct DryRunRequest {
  std::vector<std::string> policies;  ///< presets' names, or paths; empty: all presets but "off"
  std::vector<std::string> command;
  bool keep_running = false;  ///< let the program go on when all is known
};

/// How a dry run ended.
struct DryRunOutcome {
  int status = 0;  ///< for cinch: 0 when the report is there
  std::optional<telemetry::Report> report;
  std::string error;  ///< one line when it isn't
};

/// Trains two steps uncompressed and finds out what each policy would hold; then the program is
/// ended by SIGTERM, unless it shall go on. What it prints on stdout goes to stderr, so that
/// stdout is for the result.
DryRunOutcome run_dry(const DryRunRequest& request);

/// The batch size, as the first extent of most of the activations' bytes; 0 when it can't be told.
std::uint64_t batch_of(const telemetry::Report& report);

/// The policies beside each other, then each one's operators.
std::string render_dry_run(const telemetry::Report& report, const Style& style);

/// {"command": …, "steps": …, "policies": […]}: as the report has them.
std::string dry_run_json(const telemetry::Report& report);

}  // namespace cinch::cli
