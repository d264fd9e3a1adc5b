// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP request.
#include "agent/daemon/http.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = cinch::daemon::parse_head(text);
  if (parsed.status != 0) {
    if (parsed.status != 400 && parsed.status != 413) std::abort();
    return 0;
  }
  if (!parsed.request.path.starts_with('/')) std::abort();
  static_cast<void>(cinch::daemon::names_loopback(parsed.request.host));
  return 0;
}
