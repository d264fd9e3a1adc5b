// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "agent/telemetry/control.h"

namespace cinch::telemetry {

/// The answer to a request.
struct Reply {
  enum class Outcome : std::uint8_t {
    done,         ///< the process carried it out
    refused,      ///< it will not be carried out; `words` says why
    withdrawn,    ///< the process did not take it in time; it will not be carried out
    waiting,      ///< the process took it, but has not carried it out in time; it still will
    unreachable,  ///< there is no such process, it ended, or is another user's, or does not listen
  };
  Outcome outcome = Outcome::unreachable;
  std::string words;  ///< for people
};

/// "done", …
std::string_view word(Reply::Outcome outcome) noexcept;

/// Sends `command` to `process` and waits for its answer, at most `patience` seconds. Concurrent
/// callers take turns. The process takes requests when a step begins or ends; a request that it
/// does not take in time is withdrawn.
/// @param argument See Command
Reply ask(const std::string& directory, const ProcessKey& process, Command command,
          std::string_view argument, double patience);

}  // namespace cinch::telemetry
