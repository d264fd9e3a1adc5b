// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"

namespace cinch::codecs::cpu {

/// Whether `bytes` bytes are better written past the caches: they would not stay cached anyway, and
/// lines that are written whole need not be read first.
inline bool writes_past_caches(std::int64_t bytes) noexcept {
  constexpr std::int64_t kCached = std::int64_t{16} << 20;
  return bytes > kCached;
}

/// The same of what these data decode to.
inline bool writes_past_caches(const Description& what) noexcept {
  return writes_past_caches(what.layout.elements() *
                            static_cast<std::int64_t>(element_size(what.type)));
}

}  // namespace cinch::codecs::cpu
