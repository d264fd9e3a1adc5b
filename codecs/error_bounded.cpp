// SPDX-License-Identifier: Apache-2.0
#include "codecs/error_bounded.h"

#include <cmath>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {

ErrorBoundedSections::ErrorBoundedSections(std::int64_t elements) noexcept {
  blocks = (elements + kBlockElements - 1) / kBlockElements;
  superblocks = (blocks + kSuperblockBlocks - 1) / kSuperblockBlocks;
  rates = kIndex + 8 * superblocks;
  payload = (rates + blocks + 7) / 8 * 8;
}

void ErrorBoundedHeader::write(std::byte* out) const noexcept {
  std::memset(out, 0, 4);
  out[0] = std::byte{kErrorBoundedVersion};
  out[1] = static_cast<std::byte>(type);
  std::memcpy(out + 4, &bound, 4);
  std::memcpy(out + 8, &elements, 8);
  std::memcpy(out + 16, &size, 8);
}

bool ErrorBoundedHeader::read(std::span<const std::byte> in, const Description& what) noexcept {
  if (in.size() < ErrorBoundedSections::kIndex) return false;
  std::byte first[4];
  std::memcpy(first, in.data(), 4);
  std::memcpy(&bound, in.data() + 4, 4);
  std::memcpy(&elements, in.data() + 8, 8);
  std::memcpy(&size, in.data() + 16, 8);
  type = what.type;
  if (first[0] != std::byte{kErrorBoundedVersion} || first[1] != static_cast<std::byte>(type) ||
      first[2] != std::byte{0} || first[3] != std::byte{0}) {
    return false;
  }
  if (!(bound > 0.0F) || !std::isfinite(bound)) return false;
  return elements == what.layout.elements() && size >= ErrorBoundedSections(elements).payload &&
         static_cast<std::uint64_t>(size) <= in.size();
}

bool ErrorBoundedCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t ErrorBoundedCodec::encoded_bytes(const Description& what) const noexcept {
  const ErrorBoundedSections at(what.layout.elements());
  return static_cast<std::size_t>(at.payload + at.blocks * kBlockElements *
                                                   std::int64_t(element_size(what.type)));
}

}  // namespace cinch::codecs
