// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/codec.h"

/// Lossless codec for max-pool's int64 indices: holds them as offsets within their windows, without
/// knowing kernel, stride, padding or dilation.
///
/// An index points into the pooling input's plane of `Description::index_extent` = {D, H, W} as
/// (d * H + h) * W + w. Along each axis, all indices at one output coordinate lie within one
/// window, whose origin is the smallest input coordinate among them. An element's code is
/// ((d - d0) * Kh + (h - h0)) * Kw + (w - w0), with origin (d0, h0, w0) and K - 1 the largest
/// offset along an axis, in ceil(log2(Kd * Kh * Kw)) bits: 2 for a 2x2 pool, 4 for 3x3, none where
/// windows have one element.
///
/// Not representable: an index outside [0, D*H*W), or windows that need more than 8 bits.
/// Bytes, little-endian: version (1), bits, 2 bytes of 0, Kd, Kh, Kw as int32 | origins as int32,
/// one for each output d, then h, then w | `bits` bits an element at its logical index, lowest
/// first, unused bits 0.
namespace cinch::codecs {

inline constexpr int kWindowMaxBits = 8;
inline constexpr std::uint8_t kWindowVersion = 1;
inline constexpr std::int64_t kWindowHeaderBytes = 16;

/// The header: window extents and the bits of a code.
struct WindowShape {
  std::array<std::int32_t, 3> extent = {1, 1, 1};
  int bits = 0;

  /// The shape with these extents; `bits` is kWindowMaxBits + 1 when a code would not fit.
  static WindowShape of(const std::array<std::int32_t, 3>& extent) noexcept;
  void write(std::byte* out) const noexcept;
  /// False when the kWindowHeaderBytes at `in` are no header that `write` makes.
  bool read(const std::byte* in) noexcept;
};

class WindowIndexCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "window_index"; }
  Reads restores() const noexcept override { return Reads::values; }
  /// int64 with an index_extent whose plane has fewer than 2^31 elements.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  /// Byte offset of the codes, which follow header and origins.
  static std::int64_t codes_offset(const PlaneLayout& layout) noexcept;
  static std::int64_t encoded_size(const PlaneLayout& layout, int bits) noexcept;
  /// Reads and checks header and origins. On success every origin lies within its axis and `in` is
  /// long enough for all codes. `origins[axis]` has one entry an output coordinate.
  bool read_tables(const Description& what, std::span<const std::byte> in, Reads reads,
                   WindowShape& shape, std::array<std::span<std::int32_t>, 3> origins) const;
};

std::shared_ptr<const Codec> make_window_index_reference();
std::shared_ptr<const Codec> make_window_index_cpu();

}  // namespace cinch::codecs
