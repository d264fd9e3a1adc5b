// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/telemetry/report.h"

namespace cinch::hooks {

/// What this process's CUDA devices gave at most, by the figures of whichever allocator PyTorch has
/// for them; devices that gave nothing are left out, and a forked child has none. Starts nothing of
/// CUDA. What the stash knows is the caller's to fill.
std::vector<telemetry::Report::Device> device_memory();

}  // namespace cinch::hooks
