// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/narrow.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

bool is_narrowable(ElementType type) noexcept {
  return type == ElementType::int64 || type == ElementType::int32 || type == ElementType::int16 ||
         type == ElementType::uint8;
}

int most_bits(ElementType type) noexcept {
  return std::min(kNarrowMaxBits, 8 * static_cast<int>(element_size(type)));
}

bool holds(ElementType type, std::int64_t value) noexcept {
  switch (type) {
    case ElementType::uint8:
      return value == static_cast<std::uint8_t>(value);
    case ElementType::int16:
      return value == static_cast<std::int16_t>(value);
    case ElementType::int32:
      return value == static_cast<std::int32_t>(value);
    default:
      return true;
  }
}

}  // namespace

NarrowHeader NarrowHeader::of(ElementType type, std::int64_t min, std::int64_t max) noexcept {
  const std::uint64_t span = static_cast<std::uint64_t>(max) - static_cast<std::uint64_t>(min);
  return {type, std::min(static_cast<int>(std::bit_width(span)), kNarrowMaxBits + 1), min};
}

void NarrowHeader::write(std::byte* out) const noexcept {
  std::memset(out, 0, kNarrowHeaderBytes);
  out[0] = std::byte{kNarrowVersion};
  out[1] = static_cast<std::byte>(type);
  out[2] = static_cast<std::byte>(bits);
  std::memcpy(out + 8, &min, sizeof min);
}

bool NarrowHeader::read(const std::byte* in, ElementType expected) noexcept {
  type = expected;
  bits = std::to_integer<int>(in[2]);
  std::memcpy(&min, in + 8, sizeof min);
  return in[0] == std::byte{kNarrowVersion} && in[1] == static_cast<std::byte>(expected) &&
         bits <= most_bits(type) && holds(type, min);
}

bool NarrowCodec::accepts(const Description& what) const noexcept {
  return is_narrowable(what.type) && is_valid(what.layout);
}

std::size_t NarrowCodec::encoded_size(const PlaneLayout& layout, int bits) noexcept {
  return static_cast<std::size_t>(kNarrowHeaderBytes + bytes_for_bits(layout.elements() * bits));
}

std::size_t NarrowCodec::encoded_bytes(const Description& what) const noexcept {
  return encoded_size(what.layout, most_bits(what.type));
}

bool NarrowCodec::read_header(const Description& what, std::span<const std::byte> in, Reads reads,
                              NarrowHeader& header) const noexcept {
  if (reads == Reads::nothing || !accepts(what)) return false;
  if (in.size() < static_cast<std::size_t>(kNarrowHeaderBytes)) return false;
  return header.read(in.data(), what.type) && in.size() >= encoded_size(what.layout, header.bits);
}

}  // namespace cinch::codecs
