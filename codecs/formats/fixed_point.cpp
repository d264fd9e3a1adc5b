// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/fixed_point.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {

void write_entry(const ChannelFormat& format, std::byte* out) noexcept {
  const bool raw = format.form == ChannelForm::raw;
  const AffineRange range = raw ? AffineRange{} : format.range;
  const auto width = static_cast<std::uint8_t>(
      raw ? 0
          : format.bits | (format.form == ChannelForm::zero_value ? kFixedPointZeroValueFlag : 0));
  std::memcpy(out, &range.lo, 2);
  std::memcpy(out + 2, &range.step, 2);
  std::memcpy(out + 4, &width, 1);
}

bool read_entry(const std::byte* in, ChannelFormat& format) noexcept {
  std::uint8_t width;
  std::memcpy(&format.range.lo, in, 2);
  std::memcpy(&format.range.step, in + 2, 2);
  std::memcpy(&width, in + 4, 1);
  format.bits = width & 0x7F;
  if (width == 0) {
    format.form = ChannelForm::raw;
    return true;
  }
  format.form =
      (width & kFixedPointZeroValueFlag) != 0 ? ChannelForm::zero_value : ChannelForm::codes;
  return format.bits >= kFixedPointMinBits && format.bits <= kFixedPointMaxBits;
}

bool FixedPointCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t FixedPointCodec::encoded_bytes(const Description& what) const noexcept {
  const PlaneLayout& layout = what.layout;
  return static_cast<std::size_t>(kFixedPointHeaderBytes +
                                  layout.channels() * kFixedPointEntryBytes +
                                  layout.elements() * std::int64_t(element_size(what.type)));
}

void FixedPointCodec::write_header(const Description& what, std::int64_t size,
                                   std::byte* out) noexcept {
  const auto header =
      fixed_point_header(what.type, what.layout.channels(), channel_elements(what.layout), size);
  static_assert(sizeof header == kFixedPointHeaderBytes);
  std::memcpy(out, header.data(), sizeof header);
}

std::int64_t FixedPointCodec::read_header(const Description& what, std::span<const std::byte> in,
                                          Reads reads) const noexcept {
  if (reads != Reads::values || !accepts(what)) return -1;
  const std::int64_t tables =
      kFixedPointHeaderBytes + what.layout.channels() * kFixedPointEntryBytes;
  const auto expected =
      fixed_point_header(what.type, what.layout.channels(), channel_elements(what.layout), 0);
  return stated_size(expected, in, tables);
}

}  // namespace cinch::codecs
