// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/cli/watch/line.h"

namespace cinch::cli {

/// The details of one process. @param per_codec Sum up by codec, not by operator
std::vector<ScreenLine> details_of(const telemetry::Run& run, int width, bool unicode,
                                   bool per_codec);

}  // namespace cinch::cli
