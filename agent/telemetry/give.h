// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/telemetry/process.h"

/// What `cinch agent` does with processes that share a device. @pre for all: this process holds the
/// AgentPost, and calls from one thread at a time
namespace cinch::telemetry {

/// Has `process` give memory of its CUDA device `index` back that nobody uses, and waits for that,
/// `patience` seconds at most. Returns bytes; nothing when it does not listen or did not answer.
std::optional<std::uint64_t> ask_to_give(const std::string& directory, const ProcessKey& process,
                                         std::uint64_t index, double patience);

/// Tells `process` that its Want of that number was seen to, and how many bytes others gave back.
/// False when it is not there any more.
bool answer_want(const std::string& directory, const ProcessKey& process, std::uint64_t want,
                 std::uint64_t bytes);

}  // namespace cinch::telemetry
