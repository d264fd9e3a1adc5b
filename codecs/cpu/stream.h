// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::codecs::cpu {

/// Whether `bytes` bytes are better written past the caches: they would not stay cached anyway, and
/// lines that are written whole need not be read first.
inline bool writes_past_caches(std::int64_t bytes) noexcept {
  constexpr std::int64_t kCached = std::int64_t{16} << 20;
  return bytes > kCached;
}

}  // namespace cinch::codecs::cpu
