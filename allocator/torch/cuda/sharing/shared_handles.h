// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::allocator {

/// Physical memory that a process shares with others, as it is sent between them: the file
/// descriptors of its handles in that process, in the order of their addresses.
///
/// Where all pieces are of one size the text is PyTorch 2.11's own for expandable segments (version
/// 2, 'e'), which any PyTorch since 2.6 can open: process, size, count, descriptors. PyTorch
/// compares whole texts to know whether it has the memory open already, but descriptor numbers are
/// reused. So `serial` goes into four bytes after the process that PyTorch leaves unused: no text
/// ever names two memories. Pieces of several sizes need a text of Cinch's own ('i').
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
  /// Parses either text. Nothing for others, such as PyTorch's for cudaMalloc's memory, for fabric
  /// handles, and of later versions.
  static std::optional<SharedHandles> parse(std::string_view text);
  /// Whether it is a text of Cinch's own, which PyTorch can't open.
  static bool is_ours(std::string_view text) noexcept;
};

}  // namespace cinch::allocator
