// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/error_bound.h"
#include "codecs/host_device.h"

/// COMET's error-bounded quantization (section 4.1, codecs/error_bound.h) in blocks of fixed
/// length: no prediction and no entropy code, so that blocks are independent of each other and a
/// GPU encodes them without a word from the host.
///
/// 32 elements, consecutive in logical order, are a block; the last one is filled up with +0. Each
/// block takes the first of these that holds every element and is smaller than the next:
///
///  - codes of the coarse lattice, as bit planes: as many as the largest |code| has bits, and a
///    plane of signs if an element has its sign bit set;
///  - codes of the fine lattice, which rounding in the element's type cannot defeat: the planes of
///    (|code| + 1) / 2, rounded down, and one of halves, |code| % 2;
///  - the elements' own bytes: NaN, infinity, codes above kMaxCode, lattices finer than the type.
///
/// Signs and zeros are exact, -0 included. Always representable. Where only signs are read,
/// elements decode to 1 and 0, and NaN to itself.
///
/// Bytes, little-endian: version (1), element type (1), 2 bytes of 0, bound as float32, number of
/// elements as uint64, size of all of this as uint64 | for each superblock of 128 blocks where its
/// payload begins, as uint64, from the payload's beginning | one rate byte a block, and zeros up to
/// a multiple of 8 bytes | payload, block by block without padding: 32 elements; or the plane of
/// signs, the plane of halves, the planes from bit 0 up, each 4 bytes whose bit i is element i's.
///
/// A rate byte: bits 0 to 4 the number of planes, at most kMaxPlanes, without those of signs
/// (bit 5) and halves (bit 6); kRawRate for own bytes. 0: all +0.
namespace cinch::codecs {

inline constexpr std::uint8_t kErrorBoundedVersion = 1;
inline constexpr std::int64_t kBlockElements = 32;
inline constexpr std::int64_t kSuperblockBlocks = 128;
inline constexpr std::int64_t kSuperblockElements = kBlockElements * kSuperblockBlocks;
inline constexpr int kMaxPlanes = 23;  ///< bits of kMaxCode
inline constexpr unsigned kRatePlanes = 0x1F;
inline constexpr unsigned kRateSigns = 0x20;
inline constexpr unsigned kRateHalves = 0x40;
inline constexpr unsigned kRawRate = 0x80;

/// Bytes of a block's payload. @pre is_rate(rate)
CINCH_HD inline std::int64_t block_bytes(unsigned rate, std::int64_t element_size) noexcept {
  if (rate == kRawRate) return kBlockElements * element_size;
  return 4 * ((rate & kRatePlanes) + (rate / kRateSigns & 1U) + (rate / kRateHalves & 1U));
}

/// Whether `rate` is one that blocks have.
CINCH_HD inline bool is_rate(unsigned rate) noexcept {
  return rate == kRawRate || (rate < kRawRate && (rate & kRatePlanes) <= kMaxPlanes);
}

/// The rate of a block that a lattice holds; kRawRate when own bytes are no larger.
CINCH_HD inline unsigned block_rate(int planes, bool has_signs, bool has_halves,
                                    std::int64_t element_size) noexcept {
  const unsigned rate = static_cast<unsigned>(planes) | (has_signs ? kRateSigns : 0U) |
                        (has_halves ? kRateHalves : 0U);
  return block_bytes(rate, element_size) < kBlockElements * element_size ? rate : kRawRate;
}

/// Byte offsets of the sections of the encoded data.
struct ErrorBoundedSections {
  static constexpr std::int64_t kIndex = 24;
  std::int64_t superblocks;
  std::int64_t blocks;
  std::int64_t rates;
  std::int64_t payload;

  explicit ErrorBoundedSections(std::int64_t elements) noexcept;
};

/// What precedes the index.
struct ErrorBoundedHeader {
  ElementType type;
  float bound;
  std::int64_t elements;
  std::int64_t size;  ///< of everything

  void write(std::byte* out) const noexcept;
  /// False when `in` does not begin with what `write` makes of this type and number of elements,
  /// or holds less than the size that it states.
  bool read(std::span<const std::byte> in, const Description& what) noexcept;
};

/// What both engines share: everything but encode and decode.
class ErrorBoundedCodec : public Codec {
 public:
  explicit ErrorBoundedCodec(float bound) : bound_(bound) {}

  std::string_view name() const noexcept override { return "error_bounded"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool exact() const noexcept override { return false; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  float bound() const noexcept { return bound_; }

 private:
  float bound_;
};

/// @pre bound > 0 and finite
std::shared_ptr<const Codec> make_error_bounded_reference(float bound);
std::shared_ptr<const Codec> make_error_bounded_cpu(float bound);

}  // namespace cinch::codecs
