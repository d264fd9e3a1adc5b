// SPDX-License-Identifier: Apache-2.0
#include "codecs/exponent_pack.h"

#include <algorithm>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {

void PackHeader::write(std::byte* out) const noexcept {
  std::memset(out, 0, 8);
  out[0] = std::byte{kPackVersion};
  out[1] = static_cast<std::byte>(type);
  std::memcpy(out + 8, &elements, 8);
  std::memcpy(out + 16, &size, 8);
}

bool PackHeader::read(std::span<const std::byte> in, const Description& what) noexcept {
  if (in.size() < PackLayout::kIndex) return false;
  std::byte first[8];
  std::memcpy(first, in.data(), 8);
  std::memcpy(&elements, in.data() + 8, 8);
  std::memcpy(&size, in.data() + 16, 8);
  type = what.type;
  if (first[0] != std::byte{kPackVersion} || first[1] != static_cast<std::byte>(type) ||
      std::any_of(first + 2, first + 8, [](std::byte b) { return b != std::byte{0}; })) {
    return false;
  }
  return elements == what.layout.elements() && size >= PackLayout(elements).payload &&
         static_cast<std::uint64_t>(size) <= in.size();
}

bool ExponentPackCodec::accepts(const Description& what) const noexcept {
  return is_float(what.type) && is_valid(what.layout);
}

std::size_t ExponentPackCodec::encoded_bytes(const Description& what) const noexcept {
  const std::int64_t elements = what.layout.elements();
  const std::int64_t bytes = elements * std::int64_t(element_size(what.type));
  return static_cast<std::size_t>(PackLayout(elements).payload + (bytes + 7) / 8 * 8);
}

bool ExponentPackCodec::find_block(const PackHeader& header, std::span<const std::byte> in,
                                   std::int64_t index, PackBlock& block,
                                   std::span<const std::byte>& found) noexcept {
  const PackLayout at(header.elements);
  std::uint64_t offset;
  std::memcpy(&offset, in.data() + PackLayout::kIndex + 8 * index, 8);
  std::memcpy(&block, in.data() + at.blocks + 8 * index, 8);
  const auto elements =
      static_cast<int>(std::min(kPackElements, header.elements - index * kPackElements));
  if (!is_pack_block(block, elements)) return false;
  const auto size = static_cast<std::uint64_t>(
      PackSections(block, elements, static_cast<int>(element_size(header.type))).size);
  const auto payload = static_cast<std::uint64_t>(header.size - at.payload);
  if (offset % 8 != 0 || offset > payload || size > payload - offset) return false;
  found = in.subspan(static_cast<std::size_t>(at.payload) + offset, size);
  return true;
}

}  // namespace cinch::codecs
