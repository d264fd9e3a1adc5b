// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/cli/text.h"
#include "agent/telemetry/report.h"

namespace cinch::cli {

/// The summary that `cinch run` prints at the end: every line begins with "cinch: ".
std::string render_summary(const telemetry::Report& report, const Style& style);

/// The text of `cinch report`: the summary with all rows and columns.
std::string render_report(const telemetry::Report& report, const Style& style);

}  // namespace cinch::cli
