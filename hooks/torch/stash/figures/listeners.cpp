// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/figures/listeners.h"

#include <cstdarg>
#include <cstdio>

namespace cinch::hooks {

Listeners& listeners() noexcept {
  static auto& all = *new Listeners;
  return all;
}

void tell(telemetry::EventKind kind, const char* format, ...) noexcept {
  char text[sizeof(telemetry::Event::text)];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  listeners().event(kind, text);
}

}  // namespace cinch::hooks
