// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/cli/watch/line.h"

namespace cinch::cli {

/// All that there is to see of one process, its tables by codec or by operator.
std::vector<ScreenLine> details_of(const telemetry::Run& run, int width, bool unicode,
                                   bool per_codec);

}  // namespace cinch::cli
