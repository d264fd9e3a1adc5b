// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/host_device.h"

/// BLPA (Chakrabarti & Moseley, NeurIPS 2019, Eqs. 9 and 10): each channel of normalized data on a
/// grid of 2^K bins that covers its center +- three times its scale. The grid is aligned to zero so
/// that signs survive. Nothing is random.
///
/// A channel is one of PlaneLayout::channels() and has M elements. Its center and scale are beta
/// and gamma of the normalization that produced it, from Description::channel_center and
/// channel_scale if both are given, else mean and standard deviation of its elements: see
/// BlpaChunks. Then, in float32 to nearest even and without fused multiply-add:
///
///  1. d, z = blpa_grid(center, scale, K): the width of a bin, and the bin that holds the center.
///  2. code = blpa_code(x, ...): ceil(x / d) - 1 + 2^(K-1) - z, clipped to 0 .. 2^K - 1. This is
///     the floor of Eq. 9, except that 0 belongs to the bin below it; else 0 would decode to d / 2.
///
/// Decoded: blpa_value(...), the bin's middle, rounded to nearest even for 16-bit types (float16
/// clamped to its finite range). What isn't clipped is off by at most d / 2, which is at most
/// 3 |scale| / 2^K unless the center exceeds 196596 / 2^K scales, where 16 bits for z need wider
/// bins.
///
/// with_sign is for non-negative data whose signs are read too: elements that are not above 0
/// decode to exactly +0. A code tells the sign (x > 0 where code >= 2^(K-1) - z), unless clipping
/// leaves bins on only one side of zero. If it does for any channel, 1 bit an element is stored for
/// all channels.
///
/// A channel is not representable if an element, its center or its scale is a NaN, an infinity or a
/// magnitude above kAffineMaxMagnitude. It is then poisoned: its codes are 0, its grid is
/// poisoned_grid(). All other channels decode to finite numbers.
///
/// Bytes, little-endian: d as bfloat16 and z as int16 for each channel | if needed, 1 bit an
/// element, x > 0 | K bits an element. Bit streams run over the logical index, without padding:
/// element k has bits [kK, kK + K), lowest first, and the last byte's unused bits are 0.
namespace cinch::codecs {

struct BlpaParameters {
  int bits = 4;            ///< K, 1 to 8
  bool with_sign = false;  ///< also hold x > 0; elements where it is false decode to exactly 0
};

/// A channel's bins: bin n covers n * d to (n + 1) * d; bin z holds the center.
struct BlpaGrid {
  std::uint16_t step = 0;  ///< d, bfloat16
  std::int16_t bin = 0;    ///< z

  CINCH_HD bool operator==(const BlpaGrid& other) const noexcept {
    return step == other.step && bin == other.bin;
  }
};

/// The grid of a channel that can't be held, whose elements decode to NaN.
CINCH_HD inline BlpaGrid poisoned_grid() noexcept {
  return {kPoisonedStep, 0};
}

/// d = 6 max(|scale|, 1e-8) / 2^K rounded down to bfloat16, but at least |center| / 32766 rounded
/// up; z = floor(center / d), which is then at most 32767 in magnitude.
CINCH_HD inline BlpaGrid blpa_grid(float center, float scale, int bits) noexcept {
  const float magnitude = fabsf(center);
  float width = fabsf(scale);
  if (!(magnitude <= kAffineMaxMagnitude) || !(width <= kAffineMaxMagnitude)) {
    return poisoned_grid();
  }
  width = width > 1e-8F ? width : 1e-8F;
  const std::uint16_t paper = bf16_down(6.0F * width / static_cast<float>(1 << bits));
  const std::uint16_t least = bf16_up(magnitude / 32766.0F);
  const std::uint16_t step = paper > least ? paper : least;  // both positive: in order as bits
  return {step, static_cast<std::int16_t>(floorf(center / float_of_bf16(step)))};
}

/// The numbers that blpa_code needs of a grid. @pre the grid is not poisoned
struct BlpaScale {
  float inverse;  ///< 1 / d
  float offset;   ///< the code of bin -1, perhaps out of range: 2^(K-1) - 1 - z
};

CINCH_HD inline BlpaScale blpa_scale(BlpaGrid grid, int bits) noexcept {
  return {1.0F / float_of_bf16(grid.step), static_cast<float>((1 << (bits - 1)) - 1 - grid.bin)};
}

/// The code of x. x / d is x * (1 / d), each rounded. @pre |x| <= kAffineMaxMagnitude
CINCH_HD inline std::uint32_t blpa_code(float x, BlpaScale scale, int bits) noexcept {
  float u = x * scale.inverse;
  if (x > 0.0F && u == 0.0F) u = 0x1p-126F;  // the product underflowed
  const float least = -scale.offset;
  const float most = static_cast<float>((1 << bits) - 1) - scale.offset;
  u = u > least ? u : least;
  u = u < most ? u : most;
  return static_cast<std::uint32_t>(ceilf(u) + scale.offset);
}

/// The middle of a code's bin in units of d: code + 1/2 - 2^(K-1) + z. It is above 0 exactly where
/// x was, if keeps_signs(grid, bits).
CINCH_HD inline float blpa_middle(std::uint32_t code, BlpaGrid grid, int bits) noexcept {
  return static_cast<float>(code) + (static_cast<float>(grid.bin - (1 << (bits - 1))) + 0.5F);
}

/// The value of a code.
CINCH_HD inline float blpa_value(std::uint32_t code, BlpaGrid grid, int bits) noexcept {
  return float_of_bf16(grid.step) * blpa_middle(code, grid, bits);
}

/// Whether codes tell x > 0, because clipping leaves bins on both sides of zero.
CINCH_HD inline bool keeps_signs(BlpaGrid grid, int bits) noexcept {
  const int half = 1 << (bits - 1);
  return grid.bin >= 1 - half && grid.bin <= half - 1;
}

/// The order in which a channel's elements x and their squares are summed, in float64.
///
/// The channel, in PlaneLayout's order, is cut into chunks: pieces of kElements elements of a plane
/// (a plane's last piece may be shorter), or as many whole planes as fit into kElements. A chunk's
/// element i is added to sum i % kLanes, front to back, starting at +0. Then sum l + kLanes / 2 is
/// added to sum l, and so on in halves, until one sum is left. The chunks' sums are summed in the
/// same way. Then mean = sum / M and variance = squares / M - mean * mean, at least 0; the center
/// is mean, the scale is sqrt(variance), each rounded to float32.
struct BlpaChunks {
  static constexpr std::int64_t kElements = 4096;
  static constexpr std::int64_t kLanes = 64;

  std::int64_t plane_size;
  std::int64_t planes;  ///< planes of a channel
  std::int64_t pieces;  ///< chunks of a plane if planes are cut, else 1
  std::int64_t whole;   ///< planes of a chunk if planes are not cut, else 1
  std::int64_t count;   ///< chunks of a channel

  explicit BlpaChunks(const PlaneLayout& layout) noexcept;

  /// Index in the channel of chunk i's first element.
  CINCH_HD std::int64_t begin(std::int64_t i) const noexcept {
    if (pieces == 1) return i * whole * plane_size;
    return i / pieces * plane_size + i % pieces * kElements;
  }
  CINCH_HD std::int64_t size(std::int64_t i) const noexcept {
    if (pieces == 1) {
      const std::int64_t left = planes - i * whole;
      return (left < whole ? left : whole) * plane_size;
    }
    const std::int64_t left = plane_size - i % pieces * kElements;
    return left < kElements ? left : kElements;
  }
};

/// The grid of a channel of `count` elements from its sums in the order of BlpaChunks.
CINCH_HD inline BlpaGrid blpa_grid_of_sums(double sum, double squares, std::int64_t count,
                                           int bits) noexcept {
  if (count == 0) return blpa_grid(0.0F, 0.0F, bits);
  const double mean = sum / static_cast<double>(count);
  const double variance = squares / static_cast<double>(count) - mean * mean;
  return blpa_grid(static_cast<float>(mean),
                   static_cast<float>(sqrt(variance > 0.0 ? variance : 0.0)), bits);
}

/// Byte offsets of the sections of the encoded data.
struct BlpaSections {
  std::int64_t signs;
  std::int64_t codes;
  std::int64_t end;

  BlpaSections(const BlpaParameters& parameters, const PlaneLayout& layout,
               bool has_signs) noexcept;
};

/// What both engines share: everything but encode and decode.
class BlpaCodec : public Codec {
 public:
  explicit BlpaCodec(const BlpaParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "blpa"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  /// Upper bound: counts the sign bits if with_sign, though they may not be needed.
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  const BlpaParameters& parameters() const noexcept { return parameters_; }
  /// Whether sign bits are stored for channels with the encoded grids at `grids`.
  bool needs_signs(const PlaneLayout& layout, const std::byte* grids) const noexcept;
  /// Whether decode can serve `reads` from `in`; signs only if with_sign.
  bool can_decode(const Description& what, std::span<const std::byte> in,
                  Reads reads) const noexcept;

 private:
  BlpaParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_blpa_reference(const BlpaParameters& parameters);
std::shared_ptr<const Codec> make_blpa_cpu(const BlpaParameters& parameters);

}  // namespace cinch::codecs
