// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cinch::hooks {

/// The part of an entry's bytes that a sample keeps exactly: pieces of policy::piece_bytes, one at
/// a random place in each of as many equal stretches of the entry. So all samples and channels of
/// an activation are equally likely to be in it, and squared errors in the part are a share() of
/// those in the whole. On the host only.
class ExactPart {
 public:
  /// @param kept_bytes Whole pieces, fewer than `raw_bytes` @param id The entry's; places follow
  /// from it
  ExactPart(std::size_t raw_bytes, std::size_t kept_bytes, std::uint32_t id) noexcept;

  double share() const noexcept;

  /// Copies the part of `whole` to `part`, piece after piece.
  void take(const void* whole, std::span<std::byte> part) const noexcept;
  /// Copies `part` to its places in `whole`.
  void put(std::span<const std::byte> part, void* whole) const noexcept;

 private:
  std::size_t place(std::size_t piece) const noexcept;

  std::size_t raw_bytes_;
  std::size_t pieces_;
  std::uint32_t id_;
};

}  // namespace cinch::hooks
