// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cinch::allocator {

/// Where an allocator's memory is. Bytes.
struct Breakdown {
  std::size_t limit = 0;
  std::size_t device_free = 0;  ///< as the driver reports it
  std::size_t device_total = 0;
  std::size_t reserved = 0;
  std::size_t allocated = 0;
  std::size_t requested = 0;
  std::size_t stash = 0;    ///< part of `allocated` that the stash holds; set by the caller
  std::size_t free = 0;     ///< in free blocks
  std::size_t largest = 0;  ///< the largest free block
  std::size_t pending = 0;
  std::size_t stitched = 0;  ///< in handles that were moved
  std::size_t pinned = 0;    ///< in pinned granules, which must not be moved
  std::size_t unmapped = 0;
  std::size_t stuck = 0;

  /// Used blocks of one size and tag.
  struct Holder {
    std::size_t bytes = 0;  ///< each
    std::size_t count = 0;
    std::uint64_t tag = 0;
  };
  std::vector<Holder> holders;  ///< the largest, by total bytes

  /// 1 - allocated / reserved.
  double fragmentation() const noexcept {
    return reserved == 0 ? 0 : 1 - static_cast<double>(allocated) / static_cast<double>(reserved);
  }

  /// A few lines for people.
  std::string text() const;
};

/// "12.5 MiB".
std::string size_text(std::size_t bytes);

}  // namespace cinch::allocator
