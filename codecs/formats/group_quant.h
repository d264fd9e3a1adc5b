// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/host_device.h"
#include "codecs/layout.h"

/// ActNN's per-group quantization (Chen et al., ICML 2021, section 4.1): groups of G elements of a
/// sample, each with its own range, stochastically rounded to a few bits. The bits may differ from
/// sample to sample.
///
/// A plane of the layout is a sample. Its elements, in logical order, are cut into groups of G; the
/// last group of a plane may be shorter, and groups never cross planes. Per group, with b the bits
/// of its plane:
///
///  1. lo, step = affine_range(min x, max x, b).
///  2. code = affine_code(x, lo, affine_scale(range), b, draw16(key, logical index)).
///
/// Of float64 elements, x is the nearest float32, which is infinite for magnitudes beyond its
/// range.
///
/// Decoded: affine_value(lo, step, code), rounded to nearest even for 16-bit types (float16 clamped
/// to its finite range), widened for float64. Its expectation is x to within 2^-16 steps. Its
/// variance is step^2 p (1 - p), where p is the fraction of a step by which x lies above a code.
/// A group of equal elements decodes exactly if bfloat16 holds their value. Any group with
/// max x = lo decodes to lo, whatever the draws.
///
/// With GroupQuantParameters::subtractive, decoded is affine_value_dithered(lo, step, code,
/// draw16(key, logical index)): variance step^2 / 12 wherever x lies. For that the encoded data
/// begin with the key.
///
/// With GroupQuantParameters::floor, every x is floored(x, floor) before that. Decoding knows
/// nothing of it: no decoded value is far below the floor.
///
/// With GroupQuantParameters::roots, every x is rooted(x) before that, and decoded is
/// squared_root(v, step) of what v would be. Its expectation is x's, if x is not negative; its
/// variance is about x step^2 / 3, so that small elements err less than large ones.
///
/// With GroupQuantParameters::zero_code, code 0 is that of all x that are not above 0, which decode
/// to 0; no other x has it, so that Reads::sign can be served. lo, step =
/// affine_range(below_least(min x, max x, b), max x, b) of the x that are above 0; 0, 0 if there
/// are none. Negative elements are not representable.
///
/// A group with a NaN, an infinity or a magnitude above kAffineMaxMagnitude is not representable
/// and is poisoned: its codes are 0, its range is poisoned_range(). All other groups decode to
/// finite numbers. With zero_code, only a NaN or a large x poisons, and codes are 1 where x > 0.
///
/// Bytes, little-endian: the key (seed, entry, step), 16 bytes; this section exists only if
/// `subtractive` | bits of each plane, one byte a plane, then zeros up to a multiple of
/// kGroupQuantAlignment; this section exists only if Description::plane_bits is not empty | lo,
/// step as bfloat16 for each group, plane by plane | codes, plane by plane, each plane's from a
/// byte boundary on: element k of a plane has bits [kb, kb + b), lowest first, and the unused bits
/// of the plane's last byte are 0. Groups begin at byte boundaries too, since G is a multiple of 8.
namespace cinch::codecs {

struct GroupQuantParameters {
  int bits = 2;              ///< b, 1 to 8
  std::int64_t group = 256;  ///< G, a positive multiple of 8
  bool subtractive = false;  ///< subtractive dithering in place of stochastic rounding
  /// What smaller elements count as: a bfloat16, at most kAffineMaxMagnitude in magnitude; or
  /// kNoFloor.
  float floor = kNoFloor;
  bool roots = false;  ///< codes are of square roots; only if `subtractive`, without a floor
  /// Code 0 is for what is not above 0. At least 2 bits, without roots, a floor, float64 or
  /// Description::plane_bits.
  bool zero_code = false;
};

/// `spec.floor` is rounded down. @pre the parameters are in range
GroupQuantParameters group_quant_of(const CodecSpec& spec) noexcept;

/// What x counts as: `floor` where it lies below, unless x can't be held.
CINCH_HD inline float floored(float x, float floor) noexcept {
  return x < floor && x >= -kAffineMaxMagnitude ? floor : x;
}

/// What x is quantized as where roots are: 0 if it is negative; itself if it can't be held.
CINCH_HD inline float rooted(float x) noexcept {
  if (!(x <= kAffineMaxMagnitude && x >= -kAffineMaxMagnitude)) return x;
  return sqrtf(x > 0.0F ? x : 0.0F);
}

/// The square of a root v that was decoded with an even error of at most half a step, less
/// what that error adds to it on average.
CINCH_HD inline float squared_root(float v, float step) noexcept {
  return v * v - step * step * (1.0F / 12.0F);
}

/// With zero_code: where a group's range begins, so far below its least element above 0 that this
/// gets no smaller code than 1, however step is rounded. The other 2^bits - 2 steps hold the
/// elements. @pre 0 < least <= most <= kAffineMaxMagnitude, bits >= 2
CINCH_HD inline float below_least(float least, float most, int bits) noexcept {
  float step = (most - least) / static_cast<float>((1 << bits) - 2);
  step = step > least * 0x1p-7F ? step : least * 0x1p-7F;
  step = step > kAffineMinStep ? step : kAffineMinStep;
  return least - step * (1.0F + 0x1p-6F);
}

/// With zero_code: the range of a group. @param most 0 or less where no element is above 0
CINCH_HD inline AffineRange range_above_zero(float least, float most, int bits) noexcept {
  return most > 0.0F ? affine_range(below_least(least, most, bits), most, bits) : AffineRange();
}

/// With zero_code: what signs are decoded with in place of each group's range, without draws. Codes
/// other than 0 stand for 1 then.
CINCH_HD constexpr AffineRange range_of_signs() noexcept {
  return {0x3F80, 0};  // 1 as bfloat16
}

/// Alignment of the sections after the planes' bits, so that they can be read in whole words.
inline constexpr std::int64_t kGroupQuantAlignment = 16;

static_assert(sizeof(RandomKey) == 16);

/// Bytes of a plane's codes.
CINCH_HD inline std::int64_t group_quant_code_bytes(std::int64_t plane_size, int bits) noexcept {
  return (plane_size * bits + 7) / 8;
}

/// Byte offsets of the sections of the encoded data.
struct GroupQuantSections {
  std::int64_t groups;  ///< number of groups in each plane
  std::int64_t plane_bits_at;
  std::int64_t ranges;
  std::int64_t codes;
  std::int64_t end;

  /// `plane_bits` is empty or has planes() numbers from 1 to 8.
  GroupQuantSections(const GroupQuantParameters& parameters, const PlaneLayout& layout,
                     std::span<const std::uint8_t> plane_bits) noexcept;
};

/// What both engines share: everything but encode and decode.
class GroupQuantCodec : public Codec {
 public:
  explicit GroupQuantCodec(const GroupQuantParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "group_quant"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;
  std::optional<EvenErrors> even_errors(const Description& what) const noexcept override;

 protected:
  const GroupQuantParameters& parameters() const noexcept { return parameters_; }

  /// The planes' bits as `in` states them (empty where all are the same); nullopt when `reads`
  /// can't be served from `in`. Of what.plane_bits only whether it is empty matters.
  std::optional<std::span<const std::uint8_t>> encoded_plane_bits(const Description& what,
                                                                  std::span<const std::byte> in,
                                                                  Reads reads) const noexcept;

  /// The key that `in` was encoded with; without dithering {}. @pre encoded_plane_bits took `in`
  RandomKey encoded_key(std::span<const std::byte> in) const noexcept;

 private:
  GroupQuantParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_group_quant_reference(const GroupQuantParameters& parameters);
std::shared_ptr<const Codec> make_group_quant_cpu(const GroupQuantParameters& parameters);

}  // namespace cinch::codecs
