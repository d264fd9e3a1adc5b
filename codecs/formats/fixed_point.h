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
#include "codecs/formats/sized_header.h"
#include "codecs/host_device.h"

/// AC-GC's AutoQuant and AutoQuantZ (Evans & Aamodt, NeurIPS 2021, section 5, Eq. 11): every
/// channel in the fewest stochastically rounded bits that keep its elements within its error bound.
///
/// A channel is one of PlaneLayout::channels(): M = outer * plane_size() elements, counted in the
/// order of (o, d, h, w). Per channel, with the bound from Description::channel_bound or else
/// CodecSpec::error_bound:
///
///  1. min, max, and whether any element is a NaN or above kAffineMaxMagnitude in magnitude.
///  2. bits = the smallest of 2..16 for which lo, step = affine_range(min, max, bits) holds the
///     bound: the paper's ceil(log2(r / bound + 1)), because stochastic rounding errs by less than
///     a step (kappa = 1). It is checked against the stored step: see `holds_bound`.
///  3. code = affine_code (bits <= 8) or affine_code_wide, with draw16(key, logical index).
///
/// The channel is held in the smallest of three forms; on a tie in the form listed first:
///  - raw: the elements' own bytes. The only form where no bits hold the bound, where step 1 finds
///    such an element, or where the bound is not finite and > 0;
///  - codes: `bits` bits an element, M * bits in one stream, lowest first;
///  - zero_value (unless switched off): 1 bit an element, x != 0, and codes of the non-zero ones
///    only: 1 + rho * bits bits an element, rho being the share of non-zeros, so it is smaller than
///    codes where rho < 1 - 1 / bits. Zeros decode to +0.
///
/// **The bound.** |x - decoded| <= bound holds for every element as decoded in its own type, 16-bit
/// types too, exactly and without an allowance for rounding. The expectation is x to within 2^-16
/// of the codes' top value (affine.h), before a 16-bit type rounds it to nearest.
///
/// Decoded: affine_value(lo, step, code), rounded to nearest even for 16-bit types (float16
/// clamped to its finite range). Every source is representable. Signs are not kept: a positive
/// element may decode to 0 or below, so `Reads::sign` is refused.
///
/// Bytes, little-endian:
///  - header, 32 bytes: version (1), ElementType, 6 bytes of 0, channels, M and the size of all
///    bytes as int64;
///  - for each channel 5 bytes: lo, step (bfloat16), bits, + 128 for zero_value; 0, 0, 0 for raw;
///  - for each zero_value channel and each of its chunks of kFixedPointChunk elements (the last one
///    perhaps shorter) the number of non-zero elements as uint16;
///  - the channels, each from a whole byte. zero_value: for each chunk the mask, from a whole byte,
///    then the codes, from a whole byte; unused bits are 0.
/// Where a chunk begins follows by prefix sums from header, table and counts. Chunks depend on each
/// other in no other way.
namespace cinch::codecs {

inline constexpr std::uint8_t kFixedPointVersion = 1;
inline constexpr int kFixedPointMinBits = 2;
inline constexpr int kFixedPointMaxBits = 16;
inline constexpr std::int64_t kFixedPointChunk = 2048;
inline constexpr std::int64_t kFixedPointHeaderBytes = 32;

/// @param channel_size Elements of one channel
CINCH_HD constexpr SizedHeader<4> fixed_point_header(ElementType type, std::int64_t channels,
                                                     std::int64_t channel_size,
                                                     std::int64_t size) noexcept {
  return {version_word(kFixedPointVersion, type), channels, channel_size, size};
}
inline constexpr std::int64_t kFixedPointEntryBytes = 5;
inline constexpr std::uint8_t kFixedPointZeroValueFlag = 0x80;

enum class ChannelForm : std::uint8_t { raw, codes, zero_value };

/// The form of one channel: one entry of the table.
struct ChannelFormat {
  AffineRange range;
  std::uint8_t bits = 0;
  ChannelForm form = ChannelForm::raw;
};

/// True when codes of `bits` bits in steps of `step` keep all elements of a channel within `bound`,
/// as decoded in `type`. `largest` is the channel's largest magnitude.
///
/// Adding lo in float32 adds an error of 2^-24 of the value. Rounding to a 16-bit type then moves
/// the value by at most h, half a unit in the last place. error + h <= bound is sufficient, but not
/// necessary. Let P be the largest power of two <= bound. x lies on the type's own grid, so an
/// error below P is at most P after rounding. Where the grid's unit u is small (u <= 2^-6 P),
/// error + u / 2 <= P. Elsewhere x and the decoded value are multiples of v, the smaller of their
/// units. If P is one too, the error is a multiple of v below P + v, so at most P. If P < v, x
/// itself is nearest.
CINCH_HD inline bool holds_bound(float step, int bits, float largest, float bound,
                                 ElementType type) noexcept {
  const float error = step * affine_error(bits) + largest * 0x1p-23F;
  if (type == ElementType::float32) return error <= bound;
  const float reach = largest + error;
  const float half_unit =
      type == ElementType::bfloat16 ? reach * 0x1p-8F : reach * 0x1p-11F + 0x1p-25F;
  const float power = float_of_bits(float_bits(bound) & 0x7F800000U);
  return error + half_unit <= bound || error * (1.0F + 0x1p-6F) <= power;
}

/// The range and bits of a channel; bits = 0 when only raw will do. `form` is left to choose_form.
/// @param good every element is finite and not too large; otherwise min and max may be anything
CINCH_HD inline ChannelFormat fit_channel(float min, float max, bool good, float bound,
                                          ElementType type) noexcept {
  ChannelFormat format;
  if (!good || !(bound > 0.0F) || !(bound <= 0x1.FFFFFEp127F)) return format;
  const float largest = fabsf(min) > fabsf(max) ? fabsf(min) : fabsf(max);
  for (int bits = kFixedPointMinBits; bits <= kFixedPointMaxBits; ++bits) {
    const AffineRange range = affine_range(min, max, bits);
    if (!holds_bound(float_of_bf16(range.step), bits, largest, bound, type)) continue;
    format.range = range;
    format.bits = static_cast<std::uint8_t>(bits);
    break;
  }
  return format;
}

/// Chunks of a channel of `elements` elements.
CINCH_HD inline std::int64_t channel_chunks(std::int64_t elements) noexcept {
  return (elements + kFixedPointChunk - 1) / kFixedPointChunk;
}

/// Elements in chunk `chunk` of a channel of `elements` elements.
CINCH_HD inline std::int64_t chunk_elements(std::int64_t elements, std::int64_t chunk) noexcept {
  const std::int64_t rest = elements - chunk * kFixedPointChunk;
  return rest < kFixedPointChunk ? rest : kFixedPointChunk;
}

/// Bytes of `elements` elements as codes, and as a mask with codes of the non-zero ones.
CINCH_HD inline std::int64_t codes_bytes(std::int64_t elements, int bits) noexcept {
  return (elements * bits + 7) / 8;
}
CINCH_HD inline std::int64_t zero_value_bytes(std::int64_t elements, std::int64_t nonzero,
                                              int bits) noexcept {
  return (elements + 7) / 8 + codes_bytes(nonzero, bits);
}

/// The smallest form; the first one on a tie.
/// @param zero_value bytes of all chunks and counts; negative where that form is switched off
CINCH_HD inline ChannelForm choose_form(int bits, std::int64_t raw, std::int64_t codes,
                                        std::int64_t zero_value) noexcept {
  if (bits == 0) return ChannelForm::raw;
  const std::int64_t least = raw < codes ? raw : codes;
  if (zero_value >= 0 && zero_value < least) return ChannelForm::zero_value;
  return raw <= codes ? ChannelForm::raw : ChannelForm::codes;
}

/// Writes a channel's entry: kFixedPointEntryBytes at `out`.
void write_entry(const ChannelFormat& format, std::byte* out) noexcept;
/// False when the bytes at `in` are no valid entry.
bool read_entry(const std::byte* in, ChannelFormat& format) noexcept;

struct FixedPointParameters {
  float error_bound = 0.0F;  ///< finite and > 0
  bool zero_value = true;    ///< whether ChannelForm::zero_value may be used
};

/// What both engines share: everything but encode and decode.
class FixedPointCodec : public Codec {
 public:
  explicit FixedPointCodec(const FixedPointParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "fixed_point"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  const FixedPointParameters& parameters() const noexcept { return parameters_; }
  /// The bound of channel `c`.
  float bound(const Description& what, std::int64_t c) const noexcept {
    return what.channel_bound != nullptr ? what.channel_bound[c] : parameters_.error_bound;
  }
  /// Writes the header. `size` is the encoded size.
  static void write_header(const Description& what, std::int64_t size, std::byte* out) noexcept;
  /// The encoded size as the header at `in` states it; -1 when decode can't serve `reads` from
  /// `in`, because it is too short or was not encoded for `what`. Otherwise `in` holds at least
  /// header and table.
  std::int64_t read_header(const Description& what, std::span<const std::byte> in,
                           Reads reads) const noexcept;

 private:
  FixedPointParameters parameters_;
};

/// Elements of one channel.
inline std::int64_t channel_elements(const PlaneLayout& layout) noexcept {
  return layout.outer * layout.plane_size();
}

/// @pre parameters in range
std::shared_ptr<const Codec> make_fixed_point_reference(const FixedPointParameters& parameters);
std::shared_ptr<const Codec> make_fixed_point_cpu(const FixedPointParameters& parameters);

}  // namespace cinch::codecs
