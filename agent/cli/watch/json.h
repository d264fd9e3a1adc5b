// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "agent/telemetry/reader.h"

namespace cinch::cli {

inline constexpr int watch_json_version = 1;

/// {"version": 1, "runs": […]} as configs/agent/watch.schema.json describes it, on one line without
/// newline. Bytes and seconds.
std::string runs_json(std::span<const telemetry::Run> runs);

}  // namespace cinch::cli
