// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/driver.h"

#include <array>

namespace cinch::allocator {

const char* status_name(Status status) noexcept {
  static constexpr std::array<const char*, 5> names = {"ok", "not ready", "out of memory",
                                                       "out of addresses", "failed"};
  return names[static_cast<std::size_t>(status)];
}

}  // namespace cinch::allocator
