// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>

namespace cinch::hooks {

/// Reserves memory so that the next push_back on `vector` cannot throw. @throws std::bad_alloc
template <typename Vector>
void make_room_for_one(Vector& vector) {
  constexpr std::size_t least = 16;
  if (vector.size() == vector.capacity()) vector.reserve(std::max(least, 2 * vector.size()));
}

/// Runs `work`, which may fail for lack of memory; drops its exception. @return whether it was done
template <typename Work>
bool if_memory_allows(const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace cinch::hooks
