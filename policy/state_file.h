// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "policy/choice.h"
#include "policy/director.h"

namespace cinch::policy {

/// What a run of an adaptive policy leaves to the next one (the policy's "state_file"). The text is
/// JSON with a version; numbers that a policy keeps for itself have names of its own.

std::string state_text(const LearnedState& state);

/// @return the state, or one line for people about what is wrong with the text
std::variant<LearnedState, std::string> parse_state(std::string_view text);

/// The file. Not thread-safe. Functions never throw; what they return is a line for people about
/// what went wrong, or "".
class StateFile {
 public:
  /// @param path "" for none. A relative one is taken from the working directory of now.
  explicit StateFile(const std::string& path);

  /// Hands `director` what the file holds; nothing where there is no file yet.
  std::string load(Director& director) const noexcept;

  /// Replaces the file, in one step, where the director learned something since it last was asked.
  std::string save(Director& director) const noexcept;

 private:
  std::string path_;
};

}  // namespace cinch::policy
