// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/host_device.h"

/// Lossless: floating-point numbers whose exponents, of which a tensor has few, are held in as few
/// bits as most of them need, and whose other bits are held as they are; zeros, of which a ReLU's
/// output is full, are left out first. Every bit pattern comes back. There
/// is no entropy code: blocks of elements know nothing of each other and need no search, so that a
/// GPU writes and reads them in one pass.
///
/// Blocks are of kPackElements elements in logical order, the last one perhaps shorter. An
/// element's bits are rotated left by one: its *top* is the first byte
/// (float32's and bfloat16's exponent; float16's with 3 bits of the mantissa; float64's upper 8
/// bits of it), its *rest* the others, mantissa and sign.
///
///  1. A block's zeros (all bits 0, so not -0) are left out if z of its m elements are zeros and
///     z * 8 * (element's bytes) > m: a mask then costs less. What remains are n elements.
///  2. Tops are held as codes of `bits` bits, 0 to kPackMaxBits: top - base where that is in
///     [0, 2^bits - 1), otherwise all ones, and the top itself is held apart, as an escape. So no
///     bits at all mean that every top is an escape.
///  3. `bits` and `base`, at most 257 - 2^bits, are those that would hold the block's sample in the
///     fewest bits; of equals the least bits, then the least base. The sample are the elements that
///     aren't zero in 16 of a block's 128 stretches of 32 elements (`is_sampled`).
///  4. A block that would not become smaller than its elements is held as those.
///
/// Bytes, little-endian: version (1), element type (1), 6 bytes of 0, number of elements as uint64,
/// size of all of this as uint64 | for each block where it begins, as uint64, from the payload's
/// beginning, a multiple of 8 | for each block its 8 bytes (PackBlock) | payload: the blocks, each
/// filled up with zeros to a multiple of 8 bytes. A block: its elements; or if zeros are left out
/// the mask, whose bit k, lowest first, says that element k is no zero, in as many whole 8 bytes as
/// it needs; then the rests' lowest 4 bytes (float64), the next 2 (float32, float64) and the
/// highest one of all n elements each; the codes, lowest first; the escapes.
namespace cinch::codecs {

inline constexpr std::uint8_t kPackVersion = 1;
inline constexpr std::int64_t kPackElements = 4096;
inline constexpr int kPackMaxBits = 7;
inline constexpr int kPackStretch = 32;

/// Whether stretch `index` of a block's is part of the sample: one of each 8, at changing places,
/// which no period of the data follows.
CINCH_HD constexpr bool is_sampled(int index) noexcept {
  return (index + index / 8) % 8 == 0;
}

/// Whether leaving out so many zeros saves more than the mask takes.
CINCH_HD constexpr bool leaves_zeros_out(int zeros, int elements, int element_size) noexcept {
  return zeros * 8 * element_size > elements;
}

/// How many tops codes of `bits` bits tell apart, from the base on; also the code of an escape.
CINCH_HD constexpr int pack_window(int bits) noexcept {
  return (1 << bits) - 1;
}

/// Bits that hold `sampled` tops of which `inside` are within the window. @pre sampled <= 4096
CINCH_HD constexpr std::uint32_t pack_cost(int bits, int sampled, int inside) noexcept {
  return static_cast<std::uint32_t>(bits * sampled + 8 * (sampled - inside));
}

/// An element's bits with the sign below the mantissa, and back.
template <typename T>
CINCH_HD constexpr T rotate_left(T bits) noexcept {
  return static_cast<T>(bits << 1 | bits >> (8 * sizeof(T) - 1));
}
template <typename T>
CINCH_HD constexpr T rotate_right(T bits) noexcept {
  return static_cast<T>(bits >> 1 | bits << (8 * sizeof(T) - 1));
}

/// Eight codes of `bits` bits, one a byte, side by side in the lowest bits, and back.
/// @pre bits <= kPackMaxBits, and the codes are below 2^bits
CINCH_HD constexpr std::uint64_t join_codes(std::uint64_t codes, int bits) noexcept {
  constexpr std::uint64_t kBytes = 0x00FF00FF00FF00FFU;
  constexpr std::uint64_t kPairs = 0x0000FFFF0000FFFFU;
  constexpr std::uint64_t kFours = 0x00000000FFFFFFFFU;
  codes = (codes & kBytes) | (codes & ~kBytes) >> (8 - bits);
  codes = (codes & kPairs) | (codes & ~kPairs) >> (16 - 2 * bits);
  return (codes & kFours) | (codes & ~kFours) >> (32 - 4 * bits);
}
CINCH_HD constexpr std::uint64_t part_codes(std::uint64_t joined, int bits) noexcept {
  const auto apart = [bits](std::uint64_t x, int codes, std::uint64_t each) {
    const int width = codes * bits;
    const std::uint64_t low = ((std::uint64_t{1} << width) - 1) * each;
    return (x & low) | (x & low << width) << (8 * codes - width);
  };
  joined = apart(joined, 4, 1);
  joined = apart(joined, 2, 0x0000000100000001U);
  return apart(joined, 1, 0x0001000100010001U);
}

enum class PackForm : std::uint8_t { whole, packed, nonzeros };

/// What is known of a block: 8 bytes as they are stored.
struct PackBlock {
  std::uint16_t held = 0;     ///< elements that aren't left out
  std::uint16_t escapes = 0;  ///< of them
  std::uint8_t base = 0;
  std::uint8_t bits = 0;
  PackForm form = PackForm::whole;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(PackBlock) == 8);

/// Where a block's sections begin, from its own beginning; multiples of what their items have.
struct PackSections {
  std::int32_t rests;  ///< of 4, then 2, then 1 byte
  std::int32_t codes;
  std::int32_t escapes;
  std::int32_t end;   ///< without what fills the block up
  std::int32_t size;  ///< with it

  /// Of a block of `elements` elements.
  CINCH_HD PackSections(const PackBlock& block, int elements, int element_size) noexcept {
    const bool whole = block.form == PackForm::whole;
    rests = block.form == PackForm::nonzeros ? (elements + 63) / 64 * 8 : 0;
    codes = rests + block.held * (element_size - 1);
    escapes = codes + (block.held * block.bits + 7) / 8;
    end = whole ? elements * element_size : escapes + block.escapes;
    size = (end + 7) / 8 * 8;
  }
};

/// Whether there can be such a block of `elements` elements.
CINCH_HD constexpr bool is_pack_block(const PackBlock& block, int elements) noexcept {
  if (block.reserved != 0) return false;
  if (block.form == PackForm::whole) return true;
  const bool counts = block.form == PackForm::packed
                          ? block.held == elements
                          : block.form == PackForm::nonzeros && block.held <= elements;
  return counts && block.bits <= kPackMaxBits && block.escapes <= block.held;
}

/// Bytes that the up to eight codes from the k-th on take. @pre k is a multiple of 8
CINCH_HD constexpr int bytes_of_codes(const PackBlock& block, int k) noexcept {
  const int left = block.held - k;
  return left >= 8 ? block.bits : (left * block.bits + 7) / 8;
}

/// Byte offsets of the sections of the encoded data.
struct PackLayout {
  static constexpr std::int64_t kIndex = 24;
  std::int64_t count;  ///< of blocks
  std::int64_t blocks;
  std::int64_t payload;

  explicit PackLayout(std::int64_t elements) noexcept
      : count((elements + kPackElements - 1) / kPackElements),
        blocks(kIndex + 8 * count),
        payload(blocks + 8 * count) {}
};

/// What precedes the index.
struct PackHeader {
  ElementType type;
  std::int64_t elements;
  std::int64_t size;  ///< of everything

  void write(std::byte* out) const noexcept;
  /// False when `in` does not begin with what `write` makes of this type and number of elements,
  /// or holds less than the size that it states.
  bool read(std::span<const std::byte> in, const Description& what) noexcept;
};

/// What both engines share: everything but encode and decode.
class ExponentPackCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "exponent_pack"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool exact() const noexcept override { return true; }
  /// float32, bfloat16, float16 and float64.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  /// Block `index` of encoded data, with its bytes, or false when they are damaged.
  /// @pre header.read(in, what)
  static bool find_block(const PackHeader& header, std::span<const std::byte> in,
                         std::int64_t index, PackBlock& block,
                         std::span<const std::byte>& found) noexcept;
};

std::shared_ptr<const Codec> make_exponent_pack_reference();
std::shared_ptr<const Codec> make_exponent_pack_cpu();

}  // namespace cinch::codecs
