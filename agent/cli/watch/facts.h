// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

/// Figures for people that are derived from a run's segment.
namespace cinch::cli {

/// raw / stored at the peak; 0 when nothing was stored.
double ratio_of(const telemetry::Run& run);

/// The share of the last 20 steps' wall time that the program spent in Cinch, 0 to 1; below 0 when
/// not known.
double share_in_cinch(const telemetry::Run& run);

/// Duration of the last step: "248 ms", "1.25 s"; "-" before the first has ended.
std::string step_time_of(const telemetry::Run& run);

/// Seconds since the last step boundary; 0 before the first.
double silence_of(const telemetry::Run& run);

/// "running", "gone"; "idle 45s" when the run has been silent for much longer than a step takes.
std::string state_of(const telemetry::Run& run);

/// The sums over all CUDA devices if there are some, else the figures of the host; all 0 when
/// Cinch's allocator is not installed. `index` is 0 for CUDA, -1 for the host.
telemetry::DeviceFigures memory_of(const telemetry::Run& run);

/// The share of reserved memory that nothing uses.
double fragmentation_of(const telemetry::DeviceFigures& device);

/// "cpu", "cuda:0".
std::string device_name(const telemetry::DeviceFigures& device);

/// Rows summed up by codec, most raw bytes first; `op` and `operand` are empty.
std::vector<telemetry::Run::Row> by_codec(const telemetry::Run& run);

/// The rows that count any storage, most raw bytes first.
std::vector<telemetry::Run::Row> by_size(const telemetry::Run& run);

}  // namespace cinch::cli
