// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/exponent_pack.h"

#include <algorithm>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {

bool ExponentPackCodec::accepts(const Description& what) const noexcept {
  return is_float(what.type) && is_valid(what.layout);
}

std::size_t ExponentPackCodec::encoded_bytes(const Description& what) const noexcept {
  const std::int64_t elements = what.layout.elements();
  const std::int64_t bytes = elements * std::int64_t(element_size(what.type));
  return static_cast<std::size_t>(PackLayout(elements).payload + (bytes + 7) / 8 * 8);
}

void ExponentPackCodec::write_header(const Description& what, std::int64_t size,
                                     std::byte* out) noexcept {
  const auto header = pack_header(what.type, what.layout.elements(), size);
  static_assert(sizeof header == PackLayout::kIndex);
  std::memcpy(out, header.data(), sizeof header);
}

std::int64_t ExponentPackCodec::read_header(const Description& what, std::span<const std::byte> in,
                                            Reads reads) const noexcept {
  if (reads == Reads::nothing || !accepts(what)) return -1;
  const std::int64_t elements = what.layout.elements();
  return stated_size(pack_header(what.type, elements, 0), in, PackLayout(elements).payload);
}

bool ExponentPackCodec::find_block(const Description& what, std::span<const std::byte> in,
                                   std::int64_t index, PackBlock& block,
                                   std::span<const std::byte>& found) noexcept {
  const std::int64_t all = what.layout.elements();
  const PackLayout at(all);
  std::uint64_t offset;
  std::memcpy(&offset, in.data() + PackLayout::kIndex + 8 * index, 8);
  std::memcpy(&block, in.data() + at.blocks + 8 * index, 8);
  const auto elements = static_cast<int>(std::min(kPackElements, all - index * kPackElements));
  const auto element = static_cast<int>(element_size(what.type));
  if (!is_pack_block(block, elements, element)) return false;
  const auto size = static_cast<std::uint64_t>(PackSections(block, elements, element).size);
  const auto payload =
      static_cast<std::uint64_t>(in.size()) - static_cast<std::uint64_t>(at.payload);
  if (offset % 8 != 0 || offset > payload || size > payload - offset) return false;
  found = in.subspan(static_cast<std::size_t>(at.payload) + offset, size);
  return true;
}

}  // namespace cinch::codecs
