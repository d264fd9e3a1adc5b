// SPDX-License-Identifier: Apache-2.0
#include "say.h"

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "api.h"

namespace fakecuda {
namespace {

std::atomic<std::uint64_t> faults{0};

void print(const char* format, va_list arguments) {
  char line[1024];
  std::vsnprintf(line, sizeof line, format, arguments);
  std::fprintf(stderr, "fakecuda: %s\n", line);
}

}  // namespace

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
}

void fault(const char* format, ...) {
  ++faults;
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
}

}  // namespace fakecuda

FAKECUDA_API std::uint64_t fakecuda_faults() {
  return fakecuda::faults;
}
