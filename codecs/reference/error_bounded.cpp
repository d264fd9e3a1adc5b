// SPDX-License-Identifier: Apache-2.0
#include "codecs/error_bounded.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

/// One block's elements, as their bit patterns.
using Block = std::array<std::uint64_t, kBlockElements>;

/// Magnitudes of the codes on a lattice.
using Codes = std::array<std::uint32_t, kBlockElements>;

bool has_sign(ElementType type, std::uint64_t bits) {
  return (bits >> (8 * element_size(type) - 1)) != 0;
}

/// The codes of a block, or false when the lattice does not hold all of it.
bool quantize(const ErrorBound& bound, bool is_fine, const Block& block, Codes& codes) {
  const Lattice& lattice = bound.lattice(is_fine);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float magnitude = std::fabs(value_of(bound.type, block[i]));
    const float code = code_magnitude(magnitude, lattice);
    if (!is_held(bound, magnitude, code, lattice)) return false;
    codes[i] = static_cast<std::uint32_t>(code);
  }
  return true;
}

/// The block's rate and, unless that is kRawRate, its codes.
unsigned choose(const ErrorBound& bound, const Block& block, Codes& codes) {
  const bool is_fine = !quantize(bound, false, block, codes);
  if (is_fine && !(bound.has_fine && quantize(bound, true, block, codes))) return kRawRate;
  const bool has_signs = std::any_of(
      block.begin(), block.end(), [&](std::uint64_t bits) { return has_sign(bound.type, bits); });
  const std::uint32_t largest = *std::max_element(codes.begin(), codes.end());
  return block_rate(std::bit_width(is_fine ? (largest + 1) / 2 : largest), has_signs, is_fine,
                    std::int64_t(element_size(bound.type)));
}

/// A plane whose bit i is f(i).
template <typename F>
void write_plane(std::byte*& next, const F& f) {
  std::uint32_t plane = 0;
  for (int i = 0; i < kBlockElements; ++i) plane |= std::uint32_t{f(i)} << i;
  std::memcpy(next, &plane, 4);
  next += 4;
}

std::uint32_t read_plane(const std::byte*& next) {
  std::uint32_t plane;
  std::memcpy(&plane, next, 4);
  next += 4;
  return plane;
}

void write_block(ElementType type, unsigned rate, const Block& block, const Codes& codes,
                 std::byte* next) {
  if (rate == kRawRate) {
    for (int i = 0; i < kBlockElements; ++i) store_bits(next, i, element_size(type), block[i]);
    return;
  }
  const bool is_fine = (rate & kRateHalves) != 0;
  if ((rate & kRateSigns) != 0) write_plane(next, [&](int i) { return has_sign(type, block[i]); });
  if (is_fine) write_plane(next, [&](int i) { return codes[i] % 2 != 0; });
  for (unsigned bit = 0; bit < (rate & kRatePlanes); ++bit) {
    write_plane(
        next, [&](int i) { return ((is_fine ? (codes[i] + 1) / 2 : codes[i]) >> bit & 1U) != 0; });
  }
}

Block read_block(const ErrorBound& bound, unsigned rate, const std::byte* next) {
  Block block = {};
  if (rate == kRawRate) {
    for (int i = 0; i < kBlockElements; ++i) {
      block[i] = load_bits(next, i, element_size(bound.type));
    }
    return block;
  }
  const bool is_fine = (rate & kRateHalves) != 0;
  const std::uint32_t signs = (rate & kRateSigns) != 0 ? read_plane(next) : 0;
  const std::uint32_t halves = is_fine ? read_plane(next) : 0;
  Codes codes = {};
  for (unsigned bit = 0; bit < (rate & kRatePlanes); ++bit) {
    const std::uint32_t plane = read_plane(next);
    for (int i = 0; i < kBlockElements; ++i) codes[i] |= (plane >> i & 1U) << bit;
  }
  for (int i = 0; i < kBlockElements; ++i) {
    if (is_fine && codes[i] != 0) codes[i] = 2 * codes[i] - (halves >> i & 1U);
    const float magnitude =
        value_magnitude(bound.type, static_cast<float>(codes[i]), bound.lattice(is_fine));
    block[i] = bits_of(bound.type, (signs >> i & 1U) != 0 ? -magnitude : magnitude);
  }
  return block;
}

/// What a decoded element becomes where only signs are read.
std::uint64_t sign_of(ElementType type, std::uint64_t bits) {
  const float value = value_of(type, bits);
  if (std::isnan(value)) return bits;
  return value > 0.0F ? bits_of_one(type) : 0;
}

class ErrorBoundedReference final : public ErrorBoundedCodec {
 public:
  using ErrorBoundedCodec::ErrorBoundedCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::int64_t elements = what.layout.elements();
    const std::size_t size = element_size(what.type);
    const ErrorBoundedSections at(elements);
    const ErrorBound lattices = error_bound_of(what.type, bound());
    std::fill_n(out.data(), at.payload, std::byte{0});

    std::int64_t payload = 0;
    for (std::int64_t b = 0; b < at.blocks; ++b) {
      if (b % kSuperblockBlocks == 0) {
        std::memcpy(out.data() + at.kIndex + 8 * (b / kSuperblockBlocks), &payload, 8);
      }
      Block block = {};
      const std::int64_t begin = b * kBlockElements;
      for (std::int64_t k = begin; k < std::min(begin + kBlockElements, elements); ++k) {
        block[k - begin] = load_bits(source, offset_of(what.layout, k), size);
      }
      Codes codes;
      const unsigned rate = choose(lattices, block, codes);
      out[at.rates + b] = static_cast<std::byte>(rate);
      write_block(what.type, rate, block, codes, out.data() + at.payload + payload);
      payload += block_bytes(rate, std::int64_t(size));
    }
    const ErrorBoundedHeader header = {what.type, bound(), elements, at.payload + payload};
    header.write(out.data());
    return {true, static_cast<std::size_t>(header.size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    ErrorBoundedHeader header;
    if (!serves_bounded(reads) || !accepts(what) || !header.read(in, what)) return false;
    const std::size_t size = element_size(what.type);
    const ErrorBoundedSections at(header.elements);
    const ErrorBound lattices = error_bound_of(what.type, header.bound);

    const std::span<const std::byte> payload = in.subspan(at.payload, header.size - at.payload);
    std::uint64_t offset = 0;
    for (std::int64_t b = 0; b < at.blocks; ++b) {
      if (b % kSuperblockBlocks == 0) {
        std::memcpy(&offset, in.data() + at.kIndex + 8 * (b / kSuperblockBlocks), 8);
      }
      const auto rate = std::to_integer<unsigned>(in[at.rates + b]);
      if (!is_rate(rate) || offset > payload.size()) return false;
      const auto bytes = static_cast<std::uint64_t>(block_bytes(rate, std::int64_t(size)));
      if (bytes > payload.size() - offset) return false;
      const Block block = read_block(lattices, rate, payload.data() + offset);
      offset += bytes;
      const std::int64_t begin = b * kBlockElements;
      for (std::int64_t k = begin; k < std::min(begin + kBlockElements, header.elements); ++k) {
        const std::uint64_t bits = block[k - begin];
        store_bits(target, offset_of(what.layout, k), size,
                   reads == Reads::sign ? sign_of(what.type, bits) : bits);
      }
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_error_bounded_reference(float bound) {
  return std::make_shared<ErrorBoundedReference>(bound);
}

}  // namespace cinch::codecs
