// SPDX-License-Identifier: Apache-2.0
// A report: what is read of it is written and read again the same.
#include "agent/telemetry/report.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string error;
  const auto report = cinch::telemetry::from_json(text, error);
  if (!report) {
    if (error.empty()) std::abort();
    return 0;
  }
  const std::string written = cinch::telemetry::to_json(*report);
  const auto again = cinch::telemetry::from_json(written, error);
  if (!again || cinch::telemetry::to_json(*again) != written) std::abort();
  return 0;
}
