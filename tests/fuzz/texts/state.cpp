// SPDX-License-Identifier: Apache-2.0
// What a policy learned: what is read of it is written and read again the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "policy/file/state_file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = cinch::policy::parse_state(text);
  const auto* const state = std::get_if<cinch::policy::LearnedState>(&read);
  if (state == nullptr) {
    if (std::get<std::string>(read).empty()) std::abort();
    return 0;
  }
  const std::string written = cinch::policy::state_text(*state);
  const auto again = cinch::policy::parse_state(written);
  const auto* const same = std::get_if<cinch::policy::LearnedState>(&again);
  if (same == nullptr || cinch::policy::state_text(*same) != written) std::abort();
  return 0;
}
