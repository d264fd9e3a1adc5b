// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "agent/cli/watch/screen.h"

namespace cinch::cli {

/// Shows `screen` on the terminal until the user quits or SIGTERM, SIGINT or SIGHUP comes. Updates
/// it with the runs from `read` each `interval` seconds. Returns the exit status; when the terminal
/// can't be used, stderr says why.
int show_on_terminal(Screen& screen, double interval,
                     const std::function<std::vector<telemetry::Run>()>& read);

}  // namespace cinch::cli
