// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "agent/cli/watch/screen.h"

namespace cinch::cli {

/// Shows `screen` on the terminal until the user leaves or SIGTERM, SIGINT or SIGHUP comes, with
/// what `read` returns each `interval` seconds. Returns the exit status; says on stderr why the
/// terminal can't be used.
int show_on_terminal(Screen& screen, double interval,
                     const std::function<std::vector<telemetry::Run>()>& read);

}  // namespace cinch::cli
