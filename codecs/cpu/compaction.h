// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// Compacts parts of data-dependent size, written by tasks that don't know each other's sizes. Each
/// task packs its parts tightly, starting where its first part would lie if all parts had their
/// largest size. Then the gaps between tasks are closed. One task leaves no gap, so nothing moves.
namespace cinch::codecs::cpu {

/// Tasks store each part's size in the index, and set this bit for a task's first part.
inline constexpr std::uint64_t kTaskBegin = std::uint64_t{1} << 63;

/// Closes the gaps and turns the index into offsets of the parts.
/// @param room_before room_before(p) is the offset of part p if all before it have their largest
/// size
/// @return the size of all parts
template <typename F>
std::int64_t close_gaps(std::byte* payload, std::byte* index, std::int64_t parts,
                        const F& room_before) noexcept {
  std::int64_t from = 0;  // offset of the current task's parts
  std::int64_t to = 0;
  std::int64_t size = 0;
  const auto move = [&] {
    if (from != to) std::memmove(payload + to, payload + from, size);
    to += size;
    size = 0;
  };
  for (std::int64_t p = 0; p < parts; ++p) {
    std::uint64_t entry;
    std::memcpy(&entry, index + 8 * p, 8);
    if ((entry & kTaskBegin) != 0) {
      move();
      from = room_before(p);
    }
    const std::int64_t offset = to + size;
    std::memcpy(index + 8 * p, &offset, 8);
    size += static_cast<std::int64_t>(entry & ~kTaskBegin);
  }
  move();
  return to;
}

}  // namespace cinch::codecs::cpu
