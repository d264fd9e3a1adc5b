// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>
#include <string.h>

namespace cinch {

/// Whether the environment variable `name` switches something on: set, not empty, not "0".
inline bool is_set(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' && strcmp(value, "0") != 0;
}

/// Whether the environment variable `name` is "0": switches off what is on by default.
inline bool is_off(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && strcmp(value, "0") == 0;
}

}  // namespace cinch
