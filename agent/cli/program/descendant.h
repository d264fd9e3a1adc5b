// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/telemetry/process.h"

namespace cinch::cli {

/// Sends a signal to `process` if it is a descendant of this process: in the same PID namespace,
/// with the key's start time, and with parents that lead here. So the key need not be trusted. A
/// pidfd is held during the check, so that a reused process number hits nobody.
/// @return whether it was sent
bool signal_descendant(const telemetry::ProcessKey& process, int number);

}  // namespace cinch::cli
