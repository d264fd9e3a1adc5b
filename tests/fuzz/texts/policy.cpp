// SPDX-License-Identifier: Apache-2.0
// A policy file: it is read, or refused with one message that says where.
#include "policy/policy.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "policy/advising/explain.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = cinch::policy::parse_settings(text, "fuzz.json");
  if (const auto* settings = std::get_if<cinch::policy::Settings>(&read)) {
    if (cinch::policy::explain(*settings).empty()) std::abort();
    cinch::policy::Policy(*settings).enabled();
  } else {
    const auto& error = std::get<cinch::policy::PolicyError>(read);
    if (error.message.empty() || error.line < 1 || error.column < 1) std::abort();
  }
  return 0;
}
