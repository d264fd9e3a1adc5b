// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/host_device.h"
#include "codecs/layout.h"

/// One bit an element, lower < x < upper: all that the backward of ReLU6, hardtanh and hardsigmoid
/// reads, so their gradients stay exact.
///
/// Elements are compared as float32, which holds every value of the types taken; the bounds are
/// what PyTorch compares with: its Scalars rounded to float32.
///
/// Not representable: a source with a NaN. PyTorch's CPU kernel passes a NaN's gradient in the last
/// few elements of a stretch and zeroes it in vectors, so that no bit can stand for it.
/// Bytes: bit k, lowest first, is lower < x < upper of the element at logical index k; unused bits
/// are 0.
///
/// Decoded: where the bit is 1, the middle of the interval, rounded to the type's nearest; else the
/// largest value of the type that is not above `lower`, perhaps -infinity.
namespace cinch::codecs {

struct IntervalBounds {
  float lower = 0.0F;
  float upper = 6.0F;
};

/// @pre x is not NaN
CINCH_HD inline bool is_inside(float x, IntervalBounds bounds) noexcept {
  return x > bounds.lower && x < bounds.upper;
}

/// The interval in one element type.
///
/// Bit patterns are ordered like the values they stand for when read as `key`: a pattern as a
/// signed integer, with all bits but the sign's inverted in negative ones.
struct IntervalPatterns {
  std::int32_t below;     ///< key of the largest value <= lower; of +0 for ±0
  std::int32_t above;     ///< key of the smallest value >= upper; of -0 for ±0
  std::uint32_t inside;   ///< what 1 decodes to
  std::uint32_t outside;  ///< what 0 decodes to

  /// Nothing when the middle, once rounded to the type, is not inside. @pre is_quantizable(type)
  static std::optional<IntervalPatterns> of(IntervalBounds bounds, ElementType type) noexcept;
};

class IntervalCodec : public Codec {
 public:
  explicit IntervalCodec(IntervalBounds bounds) noexcept;

  std::string_view name() const noexcept override { return "interval"; }
  Reads restores() const noexcept override { return Reads::interval; }
  bool exact() const noexcept override { return true; }
  /// float32, bfloat16 and float16, where IntervalPatterns exist.
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
  }

 protected:
  const IntervalBounds& bounds() const noexcept { return bounds_; }
  /// @pre accepts a description of this type
  const IntervalPatterns& patterns(ElementType type) const noexcept {
    return *patterns_[static_cast<std::size_t>(type)];
  }
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return reads == Reads::interval && accepts(what) && size >= encoded_bytes(what);
  }

 private:
  IntervalBounds bounds_;
  std::array<std::optional<IntervalPatterns>, 3> patterns_;  ///< by ElementType
};

/// @pre bounds.lower < bounds.upper
std::shared_ptr<const Codec> make_interval_reference(IntervalBounds bounds);
std::shared_ptr<const Codec> make_interval_cpu(IntervalBounds bounds);

}  // namespace cinch::codecs
