// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver.h"

#include <array>

namespace cinch::allocator {

const char* status_name(Status status) noexcept {
  static constexpr std::array<const char*, 5> names = {"ok", "not ready", "out of memory",
                                                       "out of addresses", "failed"};
  return names[static_cast<std::size_t>(status)];
}

const char* call_name(Call call) noexcept {
  static constexpr std::array<const char*, call_count> names = {
      "reserve",           "unreserve",    "create",
      "release",           "map",          "unmap",
      "set_access",        "memory_info",  "event_create",
      "event_destroy",     "event_record", "event_query",
      "event_synchronize", "stream_wait"};
  return names[static_cast<std::size_t>(call)];
}

}  // namespace cinch::allocator
