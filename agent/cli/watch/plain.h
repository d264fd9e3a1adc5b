// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::cli {

/// The table of runs as plain text, for pipes and logs; or, `with_details`, each run's details.
std::string plain_text(const std::vector<telemetry::Run>& runs, bool with_details);

}  // namespace cinch::cli
