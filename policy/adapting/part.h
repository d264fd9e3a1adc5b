// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace cinch::policy {

/// Exact values of a part of a tensor are kept in pieces of so many bytes: a group of 256 floats.
inline constexpr std::size_t piece_bytes = 1024;

/// How many bytes of a tensor's exact values to keep where a step may keep `room` bytes: a
/// sixteenth of these, so that several tensors find room, but enough pieces to measure noise by,
/// and no more than help. All of the tensor, or whole pieces; 0 where there is no room for one.
inline std::size_t part_to_keep(std::size_t raw_bytes, std::size_t room) noexcept {
  constexpr std::size_t least = 16 * piece_bytes;
  constexpr std::size_t most = 1024 * piece_bytes;
  const std::size_t part = std::min(std::clamp(room / 16, least, most), room);
  return raw_bytes <= part ? raw_bytes : part / piece_bytes * piece_bytes;
}

}  // namespace cinch::policy
