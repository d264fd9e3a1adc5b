// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/two_sided.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

std::int64_t aligned(std::int64_t bytes) noexcept {
  return (bytes + kGroupQuantAlignment - 1) / kGroupQuantAlignment * kGroupQuantAlignment;
}

bool are_valid(const Description::Sides& sides, std::int64_t plane_size) noexcept {
  if ((sides.factor == nullptr) != (sides.summand == nullptr)) return false;
  if ((sides.center == nullptr) != (sides.spread == nullptr)) return false;
  if (sides.factor == nullptr && sides.center == nullptr) return true;
  return sides.run > 0 && plane_size % sides.run == 0;
}

/// Bits [0, count) in every `stride`, as far as they fit.
constexpr std::uint64_t bits_in_every(int count, int stride) {
  std::uint64_t pattern = 0;
  for (int at = 0; at < 64; at += stride) pattern |= ((std::uint64_t{1} << count) - 1) << at;
  return pattern;
}

/// The highest bits of codes of `bits` bits: of each eight codes in `x` a byte at their place.
template <int bits>
std::uint64_t side_bits_of(std::uint64_t x) {
  // Single bits, then pairs of them, then fours move together.
  x = x >> (bits - 1) & bits_in_every(1, bits);
  x = (x | x >> (bits - 1)) & bits_in_every(2, 2 * bits);
  x = (x | x >> 2 * (bits - 1)) & bits_in_every(4, 4 * bits);
  return x | x >> 4 * (bits - 1);
}

/// The same of many codes, for eight codes a byte. @param size of `codes`, in bytes
template <int bits>
void put_side_bits(const std::byte* codes, std::int64_t size, std::byte* out, std::int64_t begin,
                   std::int64_t end) {
  constexpr std::int64_t kAtOnce = 8 / bits;  // eights of a word
  std::int64_t i = begin;
  for (; i + kAtOnce <= end && i * bits + 8 <= size; i += kAtOnce) {
    std::uint64_t x;
    std::memcpy(&x, codes + i * bits, sizeof x);
    x = side_bits_of<bits>(x);
    for (int k = 0; k < kAtOnce; ++k) out[i + k] = static_cast<std::byte>(x >> 8 * k * bits);
  }
  for (; i < end; ++i) {
    std::uint64_t x = 0;
    std::memcpy(&x, codes + i * bits, bits);
    out[i] = static_cast<std::byte>(side_bits_of<bits>(x));
  }
}

/// By the number of bits, from 2 on.
constexpr std::array side_bits = {put_side_bits<2>, put_side_bits<3>, put_side_bits<4>,
                                  put_side_bits<5>, put_side_bits<6>, put_side_bits<7>,
                                  put_side_bits<8>};

}  // namespace

TwoSidedHeader TwoSidedHeader::of(const Description& what) noexcept {
  if (what.sides.center == nullptr) return {};
  return {what.sides.run, what.layout.plane_size() / what.sides.run};
}

TwoSidedSections::TwoSidedSections(const TwoSidedParameters& parameters, const PlaneLayout& layout,
                                   std::int64_t channels) noexcept {
  const std::int64_t size = layout.plane_size();
  const std::int64_t planes = layout.planes();
  groups = (size - 1) / parameters.group + 1;
  key = sizeof(TwoSidedHeader);
  scales = key + (parameters.subtractive ? sizeof(RandomKey) : 0);
  ranges = scales + aligned(channels * static_cast<std::int64_t>(sizeof(TwoSidedScale)));
  codes = ranges + groups * planes * static_cast<std::int64_t>(sizeof(TwoSidedRanges));
  end = codes + planes * group_quant_code_bytes(size, parameters.bits);
}

bool TwoSidedCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout) &&
         are_valid(what.sides, what.layout.plane_size());
}

std::size_t TwoSidedCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(
      TwoSidedSections(parameters_, what.layout, TwoSidedHeader::of(what).channels).end);
}

void TwoSidedCodec::put_head(const Description& what, RandomKey key,
                             std::span<std::byte> out) const noexcept {
  const auto header = TwoSidedHeader::of(what);
  const TwoSidedSections at(parameters_, what.layout, header.channels);
  std::memcpy(out.data(), &header, sizeof header);
  if (parameters_.subtractive) std::memcpy(out.data() + at.key, &key, sizeof key);
  std::fill(out.begin() + at.scales, out.begin() + at.ranges, std::byte{0});
  for (std::int64_t c = 0; c < header.channels; ++c) {
    const TwoSidedScale scale = {what.sides.center[c], what.sides.spread[c]};
    std::memcpy(out.data() + at.scales + c * static_cast<std::int64_t>(sizeof scale), &scale,
                sizeof scale);
  }
}

std::optional<TwoSidedHeader> TwoSidedCodec::encoded_header(const Description& what,
                                                            std::span<const std::byte> in,
                                                            Reads reads) const noexcept {
  if (reads != Reads::values && reads != Reads::sign) return {};
  if (!is_quantizable(what.type) || !is_valid(what.layout)) return {};
  TwoSidedHeader header;
  if (in.size() < sizeof header) return {};
  std::memcpy(&header, in.data(), sizeof header);
  if (!header.fits(what.layout.plane_size())) return {};
  const TwoSidedSections at(parameters_, what.layout, header.channels);
  if (in.size() < static_cast<std::size_t>(at.end)) return {};
  return header;
}

bool TwoSidedCodec::decode_sign_bits(const Description& what, std::span<const std::byte> in,
                                     std::span<std::byte> out, ParallelFor parallel) const {
  const auto header = encoded_header(what, in, Reads::sign);
  if (!header || !what.layout.is_contiguous() || what.layout.plane_size() % 8 != 0) return false;
  const TwoSidedSections at(parameters_, what.layout, header->channels);
  const std::byte* const codes = in.data() + at.codes;
  const std::int64_t size = at.end - at.codes;
  // So all planes' codes are one stream, in which eight take `bits` bytes.
  for_range(parallel, what.layout.elements() / 8, 4096, [&](std::int64_t begin, std::int64_t end) {
    side_bits[static_cast<std::size_t>(parameters_.bits - 2)](codes, size, out.data(), begin, end);
  });
  return true;
}

RandomKey TwoSidedCodec::encoded_key(std::span<const std::byte> in) const noexcept {
  RandomKey key;
  if (parameters_.subtractive) std::memcpy(&key, in.data() + sizeof(TwoSidedHeader), sizeof key);
  return key;
}

}  // namespace cinch::codecs
