// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::cli {

/// The table and, for one process, its details, for pipes and logs.
std::string plain_text(const std::vector<telemetry::Run>& runs, bool with_details);

}  // namespace cinch::cli
