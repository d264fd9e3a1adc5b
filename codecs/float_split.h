// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// Lossless: floating-point numbers taken apart into planes of bytes, of which those that hold the
/// exponents compress well; zeros, of which a ReLU's output is full, are left out first. Every bit
/// pattern comes back.
///
/// Elements in logical order are cut into chunks of kSplitChunk that know nothing of each other.
/// An element's bits are rotated left by one, so that the sign joins the mantissa's last bits and
/// the exponent, or float64's upper eight bits of it, comes first. Plane j of a chunk holds byte j
/// of its elements so rotated, the most significant one first.
///
/// How a chunk is held is found by trying a sample of it, m elements: all if there are at most
/// kSplitSample, else four stretches of kSplitSample / 4 from k * (chunk's elements / 4) on.
///
///  1. Zeros (all bits 0, so not -0) are left out if z of the sample are zeros and 8 * z *
///     (element's bytes - 1) > m: the mask then costs less than their mantissas. They are left out
///     of the sample, too.
///  2. A plane is worth compressing if the sample's, of m bytes, compresses to at most m - m / 16,
///     or is empty.
///  3. Where nothing is gained by either, the chunk is held as it is.
///  4. Planes worth it, and the mask, are compressed in whole, and stay so if that leaves at most
///     m - m / 32 of m bytes. A chunk that does not get smaller in all is held as it is.
///
/// Bytes, little-endian: version (1), element type, 6 bytes of 0 | for each chunk, the uint64
/// offset of its end from here to there: from the end of this table | chunks. Chunk: form
/// (SplitForm), 3 bytes of 0 | `whole`: the elements. Else for each section a uint32, its length,
/// and kSplitCompressed if it is compressed | sections: if zeros are left out the mask, whose bit
/// k, lowest first, says that element k is no zero, unused bits 0; then the planes.
///
/// What is compressed is a frame of the zstd library, one a section, with the parameters in
/// float_split_zstd.h. Its bytes depend on the library's version: encoded data must not outlive the
/// process. For the same reason there is nothing for a GPU to reproduce.
namespace cinch::codecs {

inline constexpr std::int64_t kSplitChunk = 1 << 16;
inline constexpr std::int64_t kSplitSample = 2048;
inline constexpr std::uint8_t kSplitVersion = 1;
inline constexpr std::int64_t kSplitHeaderBytes = 8;
inline constexpr std::int64_t kSplitChunkHeaderBytes = 4;
inline constexpr std::uint32_t kSplitCompressed = std::uint32_t{1} << 31;

enum class SplitForm : std::uint8_t { whole, planes, nonzero_planes };

class FloatSplitCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "float_split"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool exact() const noexcept override { return true; }
  /// float32, bfloat16, float16 and float64.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  static std::int64_t chunk_count(const PlaneLayout& layout) noexcept {
    return (layout.elements() + kSplitChunk - 1) / kSplitChunk;
  }
  static std::int64_t bodies_offset(const PlaneLayout& layout) noexcept {
    return kSplitHeaderBytes + 8 * chunk_count(layout);
  }
  static void write_header(ElementType type, std::byte* out) noexcept;
  /// Whether `in` begins with the header and a table for `what`.
  bool can_decode(const Description& what, std::span<const std::byte> in,
                  Reads reads) const noexcept;
  /// The bytes of chunk `index`, or none, which no chunk has, when the table is damaged.
  /// @pre can_decode
  static std::span<const std::byte> chunk_bytes(const PlaneLayout& layout,
                                                std::span<const std::byte> in,
                                                std::int64_t index) noexcept;
};

std::shared_ptr<const Codec> make_float_split_reference();
std::shared_ptr<const Codec> make_float_split_cpu();

}  // namespace cinch::codecs
