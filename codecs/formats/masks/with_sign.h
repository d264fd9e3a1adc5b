// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/beside_mask.h"

/// CodecSpec::with_sign beside any codec that approximates: 1 bit an element beside the inner
/// codec's bytes, as ActNN keeps ReLU's mask beside the next layer's input. For Reads::sign,
/// elements decode to 1 and 0.
///
/// For Reads::values they decode to what the inner codec makes of them, with these exceptions. NaNs
/// stay whatever their bit: they mark what the inner codec could not hold.
///
/// SignedValues::non_negative: an element whose bit is 0 decodes to +0. A negative element is not
/// representable.
///
/// SignedValues::agreeing: an element whose bit is 0 decodes to -bits_of_least() if the inner codec
/// says it is above 0. (Not to 0: PReLU's second derivative asks whether x >= 0.) One whose bit is
/// 1 decodes to bits_of_least() if the inner codec says it is not above 0. So no element's error
/// grows by more than bits_of_least(). But the result is biased: where one of the two codes that
/// stochastic rounding chooses from has the other sign, the expected value moves away from 0, by at
/// most a quarter of a step.
///
/// Bytes: bit k, lowest first, is x > 0 of the element at logical index k, then zeros up to a
/// multiple of kBesideMaskAlignment bytes | the inner codec's bytes.
namespace cinch::codecs {

/// The pattern of an element whose bit is `positive`, and which the inner codec decodes to `bits`.
CINCH_HD inline std::uint64_t signed_bits(ElementType type, std::uint64_t bits, bool positive,
                                          SignedValues values) noexcept {
  if (values == SignedValues::any || is_nan_pattern(type, bits)) return bits;
  if (values == SignedValues::non_negative) return positive ? bits : 0;
  if (is_positive_pattern(type, bits) == positive) return bits;
  return positive ? bits_of_least(type) : bits_of_least(type) | bits_of_minus_zero(type);
}

/// The inner codec's spec where signs are held here; nothing where `spec` asks for no signs, or its
/// codec holds them itself or restores them exactly.
inline std::optional<CodecSpec> spec_beside_signs(const CodecSpec& spec) {
  const auto traits = codec_traits(spec.name);
  if (!spec.with_sign || !traits || traits->fidelity != Fidelity::approximate) return std::nullopt;
  if (traits->holds_sides) return std::nullopt;
  const bool in_groups = traits->keeps_means && spec.residual_group != 0;
  const bool non_negative = spec.signed_values == SignedValues::non_negative;
  if (traits->holds_signs && non_negative && !in_groups) return std::nullopt;
  CodecSpec inner = spec;
  inner.with_sign = false;
  return inner;
}

class WithSignCodec : public BesideMaskCodec {
 public:
  WithSignCodec(std::shared_ptr<const Codec> inner, SignedValues values) noexcept
      : BesideMaskCodec(std::move(inner)), values_(values) {}

  bool accepts(const Description& what) const noexcept override {
    return is_float(what.type) && inner().accepts(what);
  }

 protected:
  SignedValues values() const noexcept { return values_; }
  bool may_be_negative() const noexcept { return values_ != SignedValues::non_negative; }
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return (reads == Reads::sign || reads == Reads::values) && accepts(what) &&
           size >= static_cast<std::size_t>(beside_mask_bytes(what.layout));
  }

 private:
  SignedValues values_;
};

/// @pre inner restores values
std::shared_ptr<const Codec> make_with_sign_reference(std::shared_ptr<const Codec> inner,
                                                      SignedValues values);
std::shared_ptr<const Codec> make_with_sign_cpu(std::shared_ptr<const Codec> inner,
                                                SignedValues values);

}  // namespace cinch::codecs
