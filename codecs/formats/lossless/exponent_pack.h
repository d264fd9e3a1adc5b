// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/formats/sized_header.h"
#include "codecs/host_device.h"

/// Lossless codec for floating-point numbers. A tensor has few different exponents: they are held
/// in as few bits as most of them need, and the other bits as they are. Zeros, frequent in a ReLU's
/// output, are left out first. Every bit pattern is restored. There is no entropy code: blocks are
/// independent and need no search, so a GPU writes and reads them in one pass.
///
/// Blocks are of kPackElements elements in logical order, the last one perhaps shorter. An
/// element's *top* is the 8 bits below its sign (float32's and bfloat16's exponent; float16's with
/// 3 bits of the mantissa; the upper 8 bits of float64's), its *rest* the other bits: the sign,
/// then those below the top.
///
///  1. A block's zeros (all bits 0, so not -0) are left out if z of its m elements are zeros and
///     z * 8 * (bytes that are held of an element) > m: a mask then costs less. n elements remain.
///  2. Tops are held as codes of `bits` bits, 0 to kPackMaxBits: top - base if that is in
///     [0, 2^bits - 1), otherwise all ones. The top itself is then held separately, as an escape.
///     With 0 bits every top is an escape.
///  3. `bits` and `base` (at most 257 - 2^bits) are those that would hold the block's sample in the
///     fewest bits; on a tie the fewest `bits`, then the smallest `base`. The sample is the
///     non-zero elements in 16 of a block's 128 stretches of 32 elements (`is_sampled`).
///  4. If the lower half of all elements' bits is 0 in a block of float32 or float64, as in numbers
///     that were widened from bfloat16 or in small integers, it is *halved*: of its elements only
///     the upper half is held.
///  5. A block that would not become smaller is held as its elements' bytes.
///
/// Bytes, little-endian: version (1), element type (1), 6 bytes of 0, number of elements as uint64,
/// encoded size as uint64 | each block's offset in the payload, as uint64, a multiple of 8 | each
/// block's 8 bytes of PackBlock | payload: the blocks, each padded with zeros to a multiple of 8
/// bytes. A block is its elements, or these sections: if zeros are left out, a mask whose bit k,
/// lowest first, says that element k is not zero, padded to whole 8 bytes; the rests, first the
/// lowest 4 bytes (float64) of all n elements, then the next 2 (float32, float64), then the highest
/// one, of which a halved block lacks the first; the codes, lowest first; the escapes.
namespace cinch::codecs {

inline constexpr std::uint8_t kPackVersion = 1;
inline constexpr std::int64_t kPackElements = 4096;
inline constexpr int kPackMaxBits = 7;
inline constexpr int kPackStretch = 32;

/// Whether stretch `index` of a block is part of the sample: one in each 8, at varying places, so
/// that the sample doesn't follow a period of the data.
CINCH_HD constexpr bool is_sampled(int index) noexcept {
  return (index + index / 8) % 8 == 0;
}

/// Whether leaving out `zeros` zeros saves more than the mask takes. @param held_size bytes of an
/// element that is held
CINCH_HD constexpr bool leaves_zeros_out(int zeros, int elements, int held_size) noexcept {
  return zeros * 8 * held_size > elements;
}

/// Whether blocks of elements of that many bytes may be halved.
CINCH_HD constexpr bool can_be_halved(int element_size) noexcept {
  return element_size >= 4;
}

/// How many tops, from the base on, have codes of `bits` bits; also the code of an escape.
CINCH_HD constexpr int pack_window(int bits) noexcept {
  return (1 << bits) - 1;
}

/// Bits that hold `sampled` tops of which `inside` have codes. @pre sampled <= 4096
CINCH_HD constexpr std::uint32_t pack_cost(int bits, int sampled, int inside) noexcept {
  return static_cast<std::uint32_t>(bits * sampled + 8 * (sampled - inside));
}

/// An element's bits with the sign moved below the top, and the reverse.
template <typename T>
CINCH_HD constexpr T lower_sign(T bits) noexcept {
  constexpr int kBelowTop = 8 * sizeof(T) - 9;
  constexpr T kSign = T{1} << kBelowTop;
  return static_cast<T>((bits >> kBelowTop & 0xFFU) << (kBelowTop + 1) | (bits >> 8 & kSign) |
                        (bits & (kSign - 1)));
}
template <typename T>
CINCH_HD constexpr T raise_sign(T bits) noexcept {
  constexpr int kBelowTop = 8 * sizeof(T) - 9;
  constexpr T kSign = T{1} << kBelowTop;
  return static_cast<T>((bits & kSign) << 8 | bits >> (kBelowTop + 1) << kBelowTop |
                        (bits & (kSign - 1)));
}

/// Packs eight codes, one a byte, into the lowest 8 * `bits` bits, and the reverse.
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

/// Description of a block: 8 bytes as they are stored.
struct PackBlock {
  std::uint16_t held = 0;     ///< number of elements that aren't left out
  std::uint16_t escapes = 0;  ///< how many of them are escapes
  std::uint8_t base = 0;
  std::uint8_t bits = 0;
  PackForm form = PackForm::whole;
  std::uint8_t halved = 0;  ///< 1: of each element the upper half is held

  /// Bytes of an element that is held. @param element_size of the tensor
  CINCH_HD constexpr int held_size(int element_size) const noexcept {
    return element_size >> halved;
  }
};
static_assert(sizeof(PackBlock) == 8);

/// Where a block's sections begin, as byte offsets in the block; each is aligned to its items.
struct PackSections {
  std::int32_t rests;  ///< all parts of 4 bytes, then of 2, then of 1
  std::int32_t codes;
  std::int32_t escapes;
  std::int32_t end;   ///< without padding
  std::int32_t size;  ///< with padding

  /// The sections of a block of `elements` elements.
  CINCH_HD PackSections(const PackBlock& block, int elements, int element_size) noexcept {
    const bool whole = block.form == PackForm::whole;
    rests = block.form == PackForm::nonzeros ? (elements + 63) / 64 * 8 : 0;
    codes = rests + block.held * (block.held_size(element_size) - 1);
    escapes = codes + (block.held * block.bits + 7) / 8;
    end = whole ? elements * element_size : escapes + block.escapes;
    size = (end + 7) / 8 * 8;
  }
};

/// Whether this can be the description of a block of `elements` elements of `element_size` bytes.
CINCH_HD constexpr bool is_pack_block(const PackBlock& block, int elements,
                                      int element_size) noexcept {
  if (block.form == PackForm::whole) return block.halved == 0;
  if (block.halved > (can_be_halved(element_size) ? 1 : 0)) return false;
  const bool counts = block.form == PackForm::packed
                          ? block.held == elements
                          : block.form == PackForm::nonzeros && block.held <= elements;
  return counts && block.bits <= kPackMaxBits && block.escapes <= block.held;
}

/// Bytes of the up to eight codes that begin with the k-th. @pre k is a multiple of 8
CINCH_HD constexpr int bytes_of_codes(const PackBlock& block, int k) noexcept {
  const int left = block.held - k;
  return left >= 8 ? block.bits : (left * block.bits + 7) / 8;
}

/// Byte offsets of the sections of the encoded data.
struct PackLayout {
  static constexpr std::int64_t kIndex = 24;
  std::int64_t count;  ///< number of blocks
  std::int64_t blocks;
  std::int64_t payload;

  explicit PackLayout(std::int64_t elements) noexcept
      : count((elements + kPackElements - 1) / kPackElements),
        blocks(kIndex + 8 * count),
        payload(blocks + 8 * count) {}
};

/// The words before the index (the blocks' offsets).
CINCH_HD constexpr SizedHeader<3> pack_header(ElementType type, std::int64_t elements,
                                              std::int64_t size) noexcept {
  return {version_word(kPackVersion, type), elements, size};
}

/// What both engines share: everything but encode and decode.
class ExponentPackCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "exponent_pack"; }
  Reads restores() const noexcept override { return Reads::values; }
  /// float32, bfloat16, float16 and float64.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  /// Writes the header. `size` is the encoded size.
  static void write_header(const Description& what, std::int64_t size, std::byte* out) noexcept;
  /// The encoded size as the header at `in` states it; -1 when decode can't serve `reads` from
  /// `in`.
  std::int64_t read_header(const Description& what, std::span<const std::byte> in,
                           Reads reads) const noexcept;
  /// Finds description and bytes of block `index`. False when they are damaged.
  /// @pre `in` is what read_header found good, cut to its size
  static bool find_block(const Description& what, std::span<const std::byte> in, std::int64_t index,
                         PackBlock& block, std::span<const std::byte>& found) noexcept;
};

std::shared_ptr<const Codec> make_exponent_pack_reference();
std::shared_ptr<const Codec> make_exponent_pack_cpu();

}  // namespace cinch::codecs
