// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/telemetry/process.h"

namespace cinch::cli {

/// Sends a signal to `process`, wherever its number was read, if it is a descendant of this
/// process: of this namespace of processes, started when the key says, with parents that lead here.
/// The process is held (a pidfd) while that is found out, so that a number used again hits nobody.
/// @return whether it was sent
bool signal_descendant(const telemetry::ProcessKey& process, int number);

}  // namespace cinch::cli
