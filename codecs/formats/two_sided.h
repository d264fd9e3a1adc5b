// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/formats/group_quant.h"
#include "codecs/host_device.h"

/// Per-group quantization with two ranges a group, one for each side of the elements. Made for the
/// input x of a batch normalization whose output goes to ReLU: that output is fma(x, factor,
/// summand) with numbers by channel, and its sign, which ReLU's backward reads, is one bit of x's
/// code.
///
/// Planes and groups are those of group_quant.h: a plane is a sample. Element k of a plane is of
/// channel k / run (Description::sides). With b the bits in all:
///
///  1. side = is_upper(x, factor, summand) of its channel; x > 0 without factors.
///  2. z = normalized(x, center, inverse_spread(center, spread)) of its channel; x without centers.
///  3. Of a group's elements of each side: lo, step = affine_range(min z, max z, b - 1); 0, 0 if
///     there are none.
///  4. code = side << (b - 1) | affine_code(z, lo, affine_scale(range), b - 1, draw16(key, logical
///     index)), with its side's range.
///
/// Decoded: z' = affine_value(lo, step, code's low b - 1 bits), or affine_value_dithered with
/// `subtractive`, as group_quant does; of that denormalized(z', center, spread), rounded to nearest
/// even for 16-bit types (float16 clamped to its finite range). For Reads::sign: 1 where the side
/// is upper, else 0, exactly. Decoding reads centers and spreads from the bytes.
///
/// A group with a z that is NaN or beyond kAffineMaxMagnitude in magnitude is not representable and
/// is poisoned: both its ranges are poisoned_range(), and of its codes only the sides are written,
/// which stay exact. All other groups decode to finite numbers.
///
/// Bytes, little-endian: run, number of channels, 8 bytes each, both 0 where x was not normalized |
/// the key (seed, entry, step), 16 bytes; only if `subtractive` | center and spread, float32, of
/// each channel, then zeros up to a multiple of kGroupQuantAlignment; only if x was normalized |
/// lower lo, step, upper lo, step as bfloat16 for each group, plane by plane | codes as in
/// group_quant.h.
namespace cinch::codecs {

/// GroupQuantParameters::bits is b, 2 to 8, the side's included.
using TwoSidedParameters = GroupQuantParameters;

inline constexpr float kTwoSidedMaxSpread = 0x1p40F;

/// Whether an element is on the upper side; false for NaN.
CINCH_HD inline bool is_upper(float x, float factor, float summand) noexcept {
  return fmaf(x, factor, summand) > 0.0F;
}

/// 1 / spread, or NaN if a channel can't be normalized so: where decoded numbers might overflow.
CINCH_HD inline float inverse_spread(float center, float spread) noexcept {
  const bool good = fabsf(center) <= kAffineMaxMagnitude && spread > 0.0F &&
                    spread <= kTwoSidedMaxSpread;  // false for NaN
  return good ? 1.0F / spread : float_of_bits(0x7FC00000U);
}

CINCH_HD inline float normalized(float x, float center, float inverse) noexcept {
  return (x - center) * inverse;
}

/// Nearly the reverse of normalized.
CINCH_HD inline float denormalized(float z, float center, float spread) noexcept {
  return z * spread + center;
}

/// What begins the encoded bytes. Both 0 where elements were not normalized.
struct TwoSidedHeader {
  std::int64_t run = 0;
  std::int64_t channels = 0;

  /// The header that `what` is encoded with.
  static TwoSidedHeader of(const Description& what) noexcept;

  /// Whether `encode` may have written this for planes of this size.
  CINCH_HD bool fits(std::int64_t plane_size) const noexcept {
    if (run == 0) return channels == 0;
    // A product that wraps around has more channels than planes need, which does no harm.
    return run > 0 && run <= plane_size && channels > 0 && channels <= plane_size &&
           static_cast<std::uint64_t>(run) * static_cast<std::uint64_t>(channels) ==
               static_cast<std::uint64_t>(plane_size);
  }
};
static_assert(sizeof(TwoSidedHeader) == 16);

/// Numbers of a channel, as they are encoded.
struct TwoSidedScale {
  float center = 0.0F;
  float spread = 1.0F;
};

/// Lower and upper range of a group, as they are encoded.
struct TwoSidedRanges {
  AffineRange lower, upper;
};

/// Byte offsets of the sections of the encoded data.
struct TwoSidedSections {
  std::int64_t groups;  ///< number of groups in each plane
  std::int64_t key;
  std::int64_t scales;
  std::int64_t ranges;
  std::int64_t codes;
  std::int64_t end;

  /// @param channels TwoSidedHeader::channels
  TwoSidedSections(const TwoSidedParameters& parameters, const PlaneLayout& layout,
                   std::int64_t channels) noexcept;
};

/// What both engines share: everything but encode and decode.
class TwoSidedCodec : public Codec {
 public:
  explicit TwoSidedCodec(const TwoSidedParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "two_sided"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;
  /// Of contiguous planes whose size is a multiple of 8.
  bool decode_sign_bits(const Description& what, std::span<const std::byte> in,
                        std::span<std::byte> out, ParallelFor parallel) const override;

 protected:
  const TwoSidedParameters& parameters() const noexcept { return parameters_; }

  /// Writes the header, the key, and the section of scales with its padding.
  void put_head(const Description& what, RandomKey key, std::span<std::byte> out) const noexcept;

  /// The header of `in`; nullopt when `reads` can't be served from `in`.
  std::optional<TwoSidedHeader> encoded_header(const Description& what,
                                               std::span<const std::byte> in,
                                               Reads reads) const noexcept;

  /// The key that `in` was encoded with; without dithering {}. @pre encoded_header took `in`
  RandomKey encoded_key(std::span<const std::byte> in) const noexcept;

 private:
  TwoSidedParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_two_sided_reference(const TwoSidedParameters& parameters);
std::shared_ptr<const Codec> make_two_sided_cpu(const TwoSidedParameters& parameters);

}  // namespace cinch::codecs
