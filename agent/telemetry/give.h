// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/telemetry/process.h"

/// How `cinch agent` talks to processes that share a device. @pre for all: this process holds the
/// AgentPost, and calls from one thread at a time
namespace cinch::telemetry {

/// Asks `process` to give back idle memory of its CUDA device `index`, and waits for the answer, at
/// most `patience` seconds. Returns the bytes given back; nothing when the process does not listen
/// or did not answer.
std::optional<std::uint64_t> ask_to_give(const std::string& directory, const ProcessKey& process,
                                         std::uint64_t index, double patience);

/// Tells `process` that other processes gave back `bytes` for its Want number `want`. False when
/// the process is gone.
bool answer_want(const std::string& directory, const ProcessKey& process, std::uint64_t want,
                 std::uint64_t bytes);

}  // namespace cinch::telemetry
