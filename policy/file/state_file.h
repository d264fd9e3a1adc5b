// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "policy/adapting/director.h"
#include "policy/choice.h"

namespace cinch::policy {

/// The text of a "state_file", by which a run of an adaptive policy passes `state` to the next run:
/// JSON with a version. Numbers have names that the policy chooses.
std::string state_text(const LearnedState& state);

/// @return the state, or one line for the user about what is wrong with the text
std::variant<LearnedState, std::string> parse_state(std::string_view text);

/// The policy's "state_file". Not thread-safe. Functions never throw; they return a line for the
/// user about what went wrong, or "".
class StateFile {
 public:
  /// @param path "" for none. A relative path is resolved now, from the working directory.
  explicit StateFile(const std::string& path);

  /// Hands the state in the file to `director`; does nothing where there is no file yet.
  std::string load(Director& director) const noexcept;

  /// Replaces the file, in one step, if the director has news (Director::take_news).
  std::string save(Director& director) const noexcept;

 private:
  std::string path_;
};

}  // namespace cinch::policy
