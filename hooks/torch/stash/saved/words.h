// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cinch::hooks {

/// A description in numbers, equal for equal things: the key of a map.
using Words = std::vector<std::int64_t>;

struct HashOfWords {
  std::size_t operator()(const Words& words) const noexcept {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over words
    for (const std::int64_t word : words) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

}  // namespace cinch::hooks
