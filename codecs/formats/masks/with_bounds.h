// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "codecs/codec.h"
#include "codecs/formats/masks/beside_mask.h"
#include "codecs/key_order.h"

/// CodecSpec::with_bounds beside any codec that approximates: for each bound of an interval 1 bit
/// an element, which tells on which side of it the element was. Of values that a clamp's backward
/// compares with its bounds, and that something else reads as numbers. An infinite bound needs no
/// bit.
///
/// Elements decode to what the inner codec makes of them, except for those that it puts on the
/// other side of the bound: these become the type's nearest value on their own side. NaNs stay:
/// they mark what the inner codec could not hold. Reads::interval gives the same.
///
/// Bytes: for each bound, the upper one's first: bit k, lowest first, tells whether the element at
/// logical index k is above it (0 for a NaN), then zeros up to a multiple of kBesideMaskAlignment
/// bytes; behind these the inner codec's bytes.
namespace cinch::codecs {

/// A number on one side of which, or on the other, each element lies.
struct Bound {
  float value = 0.0F;
  bool is_above = false;  ///< whether the number itself counts as above the bound
};

/// A bound in one element type. Keys are those of key_order.h.
struct BoundPatterns {
  std::int32_t key;         ///< of the largest value that is not above
  std::uint32_t not_above;  ///< pattern of that value
  std::uint32_t above;      ///< pattern of the smallest value above

  /// @pre is_quantizable(type)
  static BoundPatterns of(Bound bound, ElementType type) noexcept {
    const std::int64_t above = first_key(
        type, [&](float x) { return bound.is_above ? x >= bound.value : x > bound.value; });
    return {static_cast<std::int32_t>(above - 1), pattern_of(type, above - 1),
            pattern_of(type, above)};
  }
};

/// The pattern of an element that is `above` the bound or not, and which the inner codec decodes to
/// `bits`.
CINCH_HD inline std::uint64_t bounded_bits(ElementType type, std::uint64_t bits, bool above,
                                           const BoundPatterns& bound) noexcept {
  if (is_nan_pattern(type, bits) || (key_of(type, bits) > bound.key) == above) return bits;
  return above ? bound.above : bound.not_above;
}

/// The inner codec's spec where bounds are held here; nothing where `spec` asks for none, or its
/// codec restores them exactly.
inline std::optional<CodecSpec> spec_beside_bounds(const CodecSpec& spec) {
  const auto traits = codec_traits(spec.name);
  if (!spec.with_bounds || !traits || traits->fidelity == Fidelity::exact) return std::nullopt;
  CodecSpec inner = spec;
  inner.with_bounds = false;
  return inner;
}

/// The finite bounds of `spec`, the one that is next to the inner codec first.
inline std::vector<Bound> bounds_of(const CodecSpec& spec) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<Bound> bounds;
  if (spec.lower != -kInfinity) bounds.push_back({spec.lower, spec.closed});
  if (spec.upper != kInfinity) bounds.push_back({spec.upper, !spec.closed});
  return bounds;
}

class WithBoundCodec : public BesideMaskCodec {
 public:
  WithBoundCodec(std::shared_ptr<const Codec> inner, Bound bound) noexcept
      : BesideMaskCodec(std::move(inner)) {
    for (const ElementType type : kKeyedTypes) {
      patterns_[index(type)] = BoundPatterns::of(bound, type);
    }
  }

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && inner().accepts(what);
  }

 protected:
  /// @pre accepts a description of this type
  const BoundPatterns& patterns(ElementType type) const noexcept { return patterns_[index(type)]; }
  bool can_decode(const Description& what, std::size_t size) const noexcept {
    return accepts(what) && size >= static_cast<std::size_t>(beside_mask_bytes(what.layout));
  }
  /// What the inner codec is to decode for `reads`.
  static Reads reads_of_inner(Reads reads) noexcept {
    return reads == Reads::interval ? Reads::values : reads;
  }

 private:
  static std::size_t index(ElementType type) noexcept { return static_cast<std::size_t>(type); }

  std::array<BoundPatterns, kKeyedTypes.size()> patterns_;  ///< by ElementType
};

/// @pre inner restores values
std::shared_ptr<const Codec> make_with_bound_reference(std::shared_ptr<const Codec> inner,
                                                       Bound bound);
std::shared_ptr<const Codec> make_with_bound_cpu(std::shared_ptr<const Codec> inner, Bound bound);

}  // namespace cinch::codecs
