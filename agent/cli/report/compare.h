// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/cli/text.h"
#include "agent/telemetry/report.h"

namespace cinch::cli {

/// The text of `cinch report A.json B.json`: the two runs beside each other, B relative to A, in
/// total and by operator. Figures that a file lacks are shown as "?" and named at the end.
/// @param a_name, b_name What to call them, such as the files' names
std::string render_comparison(const telemetry::Report& a, const std::string& a_name,
                              const telemetry::Report& b, const std::string& b_name,
                              const Style& style);

}  // namespace cinch::cli
