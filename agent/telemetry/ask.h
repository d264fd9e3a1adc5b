// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "agent/telemetry/control.h"

namespace cinch::telemetry {

/// What came of a request.
struct Reply {
  enum class Outcome : std::uint8_t {
    done,         ///< the process carried it out
    refused,      ///< the process says why not
    withdrawn,    ///< no step boundary came in time; it will not be carried out
    waiting,      ///< the process took it, but has not carried it out in time; it still will
    unreachable,  ///< there is no such process, it ended, or is another user's, or does not listen
  };
  Outcome outcome = Outcome::unreachable;
  std::string words;  ///< for people
};

/// "done", …
std::string_view word(Reply::Outcome outcome) noexcept;

/// Asks `process` for something and waits for its answer, `patience` seconds at most. Whoever else
/// asks it at the same time comes first or afterwards. The process answers when a step begins or
/// ends: one that does neither leaves the request there until it is withdrawn.
/// @param argument See Command
Reply ask(const std::string& directory, const ProcessKey& process, Command command,
          std::string_view argument, double patience);

}  // namespace cinch::telemetry
