// SPDX-License-Identifier: Apache-2.0
// A pickled memory snapshot of PyTorch.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "tools/replay/trace.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = cinch::allocator::import_snapshot(text);
  if (const auto* trace = std::get_if<cinch::allocator::Trace>(&read)) {
    static_cast<void>(trace->peak_bytes());
  } else if (std::get<std::string>(read).empty()) {
    std::abort();
  }
  return 0;
}
