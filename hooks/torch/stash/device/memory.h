// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/telemetry/report.h"

namespace cinch::hooks {

/// Peak memory that this process took from each CUDA device, as PyTorch's current allocator counts.
/// Leaves out unused devices; empty in a forked child. Does not initialize CUDA. The caller fills
/// the stash's own figures.
std::vector<telemetry::Report::Device> device_memory();

}  // namespace cinch::hooks
