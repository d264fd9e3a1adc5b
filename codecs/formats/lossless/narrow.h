// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "codecs/codec.h"

/// Lossless codec for integers that span little of their type's range, such as class labels, token
/// numbers and gathered indices. Holds each as its distance from the minimum, in as few bits as the
/// largest distance needs.
///
/// Not representable: int64 that span more than 32 bits.
/// Bytes, little-endian: version (1), element type, bits, 1 byte of 0, 4 bytes of 0, minimum as
/// int64 | `bits` bits an element at its logical index, lowest first, unused bits 0. Bits are 0 to
/// 32, and at most the type's; without elements minimum and bits are 0. An element decodes to
/// minimum plus distance, modulo the type's range.
namespace cinch::codecs {

inline constexpr int kNarrowMaxBits = 32;
inline constexpr std::uint8_t kNarrowVersion = 1;
inline constexpr std::int64_t kNarrowHeaderBytes = 16;

struct NarrowHeader {
  ElementType type = ElementType::int64;
  int bits = 0;  ///< kNarrowMaxBits + 1 when a distance would not fit
  std::int64_t min = 0;

  /// The header for elements from `min` to `max`. @pre min <= max
  static NarrowHeader of(ElementType type, std::int64_t min, std::int64_t max) noexcept;
  void write(std::byte* out) const noexcept;
  /// False when the kNarrowHeaderBytes at `in` are no header that `write` makes for `expected`.
  bool read(const std::byte* in, ElementType expected) noexcept;
};

class NarrowCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "narrow"; }
  Reads restores() const noexcept override { return Reads::values; }
  /// int64, int32, int16 and uint8.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  static std::size_t encoded_size(const PlaneLayout& layout, int bits) noexcept;
  /// Reads and checks the header. On success `in` is long enough for all distances.
  bool read_header(const Description& what, std::span<const std::byte> in, Reads reads,
                   NarrowHeader& header) const noexcept;
};

std::shared_ptr<const Codec> make_narrow_reference();
std::shared_ptr<const Codec> make_narrow_cpu();

}  // namespace cinch::codecs
