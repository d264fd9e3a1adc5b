// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/cli/program/short_run.h"
#include "agent/cli/text.h"
#include "agent/telemetry/report.h"

namespace cinch::cli {

struct DryRunRequest {
  std::vector<std::string> policies;  ///< presets' names, or paths; empty: all presets but "off"
  std::vector<std::string> command;
  bool keep_running = false;  ///< let the program go on after the dry run
};

/// Has the program train two steps uncompressed and measures what each policy would hold; then ends
/// the program by SIGTERM, unless `keep_running`. The program's stdout goes to stderr: stdout is
/// for the result.
ShortRunOutcome run_dry(const DryRunRequest& request);

/// Guesses the batch size: the first extent that most bytes of activations have; 0 when unknown.
std::uint64_t batch_of(const telemetry::Report& report);

/// The policies beside each other, then each one's operators.
std::string render_dry_run(const telemetry::Report& report, const Style& style);

/// {"command": …, "torch_version": …, …, "policies": […]}: values from the report.
std::string dry_run_json(const telemetry::Report& report);

}  // namespace cinch::cli
