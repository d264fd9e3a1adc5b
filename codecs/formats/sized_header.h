// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/codec.h"
#include "codecs/host_device.h"

namespace cinch::codecs {

/// The header of encoded data whose size depends on the data, in words of 8 bytes: the codec's
/// version and the type, numbers that the description gives, and the encoded size.
template <std::size_t kWords>
using SizedHeader = std::array<std::int64_t, kWords>;

/// A header's first word.
CINCH_HD constexpr std::int64_t version_word(std::uint8_t version, ElementType type) noexcept {
  return version | static_cast<std::int64_t>(type) << 8;
}

/// The encoded size that the header at `in` states.
/// @param expected The header that encode writes, but for the size
/// @return -1 when another header is there, or the size is below `least` or beyond `in`
template <std::size_t kWords>
std::int64_t stated_size(SizedHeader<kWords> expected, std::span<const std::byte> in,
                         std::int64_t least) noexcept {
  SizedHeader<kWords> header;
  if (in.size() < sizeof header) return -1;
  std::memcpy(header.data(), in.data(), sizeof header);
  const std::int64_t size = expected.back() = header.back();
  if (header != expected || size < least) return -1;
  return static_cast<std::size_t>(size) <= in.size() ? size : -1;
}

}  // namespace cinch::codecs
