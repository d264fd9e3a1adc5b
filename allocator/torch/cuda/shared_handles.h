// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::allocator {

/// Physical memory that a process lets others map, as it travels between them: which file
/// descriptors of that process stand for it, in the order in which they lie behind the addresses.
///
/// Where all pieces are of one size the text is PyTorch 2.11's own for expandable segments (version
/// 2, 'e'), which any PyTorch since 2.6 can open: process, size, count, descriptors. PyTorch leaves
/// four bytes after the process unused, and compares whole texts to know whether it has the memory
/// open already; `serial` goes there, so that a text never names two memories, though descriptors
/// are used again. Pieces of several sizes it cannot name: that is a text of Cinch's own ('i').
struct SharedHandles {
  struct Piece {
    std::uint64_t bytes = 0;
    std::int32_t descriptor = -1;
  };

  std::int32_t process = 0;
  std::uint32_t serial = 0;
  std::vector<Piece> pieces;

  std::size_t bytes() const noexcept;
  /// @pre there is a piece
  std::string text() const;
  /// Nothing when it is neither of the two, as are PyTorch's for cudaMalloc's memory, for fabric
  /// handles, and of later versions.
  static std::optional<SharedHandles> parse(std::string_view text);
  /// Whether it is of Cinch's own kind, which nobody else knows.
  static bool is_ours(std::string_view text) noexcept;
};

}  // namespace cinch::allocator
