// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/formats/division/division.h"
#include "codecs/formats/group_quant.h"
#include "codecs/host_device.h"

/// DIVISION's block means with residuals in groups. In the paper a plane's residuals share one
/// range; here G neighbours of them do, so that an outlier costs its group precision, not its
/// plane.
///
/// Arithmetic is float32 in round-to-nearest-even, without fused multiply-add. Per plane:
///
///  1. Each block's mean is computed as in `division.h`, step 1. L = held_mean(mean): rounded to
///     bfloat16, but +0 if that can't be held.
///  2. r = x - L, where L is that of the block that covers x.
///  3. The plane's r are held as `group_quant.h` holds a plane of float32 elements: groups of G in
///     logical order, stochastic rounding or subtractive dithering, draws counted by logical index.
///
/// Decoded: L + v, where v is the float32 that `group_quant` decodes to; rounded to nearest even
/// for 16-bit types (float16 clamped to its finite range).
///
/// A group with an r that is NaN, infinite or above kAffineMaxMagnitude in magnitude is not
/// representable and is poisoned, as in `group_quant`. All other groups decode to finite numbers.
///
/// Signs are those of `with_sign.h`, whatever the values.
///
/// Bytes: the means in bfloat16, plane by plane | zeros up to a multiple of kGroupQuantAlignment |
/// what `group_quant` writes for float32 planes of r.
namespace cinch::codecs {

struct DivisionGroupsParameters {
  DivisionParameters means;  ///< block and edge_ceil
  GroupQuantParameters residuals;
};

/// A block's mean as bfloat16: nearest, but +0 where that is NaN or above kAffineMaxMagnitude in
/// magnitude.
CINCH_HD inline std::uint16_t held_mean(float mean) noexcept {
  const std::uint16_t bits = bf16_nearest(mean);
  return mean == mean && fabsf(float_of_bf16(bits)) <= kAffineMaxMagnitude ? bits : 0;
}

/// @pre spec.residual_group > 0
DivisionGroupsParameters division_groups_of(const CodecSpec& spec) noexcept;

/// The residuals of `what`'s planes.
Description division_residuals(const Description& what) noexcept;

/// Byte offsets of the sections of the encoded data.
struct DivisionGroupsSections {
  std::int64_t residuals;
  std::int64_t end;

  DivisionGroupsSections(const DivisionGroupsParameters& parameters,
                         const PlaneLayout& layout) noexcept;
};

/// What both engines share: everything but encode and decode.
class DivisionGroupsCodec : public Codec {
 public:
  explicit DivisionGroupsCodec(const DivisionGroupsParameters& parameters)
      : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "division"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  const DivisionGroupsParameters& parameters() const noexcept { return parameters_; }
  /// Whether decode can serve `reads` from `size` bytes.
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept;

 private:
  DivisionGroupsParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_division_groups_reference(
    const DivisionGroupsParameters& parameters);
std::shared_ptr<const Codec> make_division_groups_cpu(const DivisionGroupsParameters& parameters);

}  // namespace cinch::codecs
