// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fakecuda {
namespace {

const char* text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

std::size_t number(const char* name, std::size_t otherwise) {
  const char* value = text(name, nullptr);
  return value != nullptr ? std::strtoull(value, nullptr, 0) : otherwise;
}

}  // namespace

const Settings& settings() {
  static const Settings read = {
      .devices = std::min(static_cast<int>(number("FAKECUDA_DEVICES", 1)), max_devices),
      .memory = number("FAKECUDA_MEMORY", std::size_t{4} << 30),
      .event_delay = static_cast<int>(number("FAKECUDA_EVENT_DELAY", 0)),
      .schedule = text("FAKECUDA_SCHEDULE", "eager"),
      .shared = text("FAKECUDA_SHARED", nullptr),
      .poison = number("FAKECUDA_POISON", 0) != 0,
      .failures = text("FAKECUDA_FAIL", ""),
      .trace = text("FAKECUDA_TRACE", nullptr),
      .skip_unknown = std::strcmp(text("FAKECUDA_UNKNOWN_KERNELS", "fail"), "skip") == 0,
      .libraries = text("FAKECUDA_LIBRARIES", nullptr),
  };
  return read;
}

}  // namespace fakecuda
