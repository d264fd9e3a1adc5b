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

/// Holds one bit an element: whether x lies in an interval, lower < x < upper, or with its ends
/// lower <= x <= upper. The backward of ReLU6, hardtanh, hardsigmoid and clamp reads nothing else,
/// so their gradients stay exact.
///
/// Elements are compared as float32, which holds every value of the accepted types. The bounds are
/// those that PyTorch compares with: its Scalars rounded to float32.
///
/// Not representable: a source with a NaN. PyTorch's CPU kernel passes a NaN's gradient in the
/// scalar tail of a range and zeroes it in vectors, so no bit can stand for it.
/// Bytes: bit k, lowest first, tells it of the element at logical index k; unused bits are 0.
///
/// Decoded: where the bit is 1, the middle of the interval, rounded to the type's nearest value;
/// else the type's largest value below it, perhaps -infinity, or the smallest above it if none is
/// below.
namespace cinch::codecs {

struct IntervalBounds {
  float lower = 0.0F;
  float upper = 6.0F;
  bool closed = false;  ///< both ends belong to it

  bool operator==(const IntervalBounds&) const = default;

  /// Whether it has an inside in float32, not less than a number.
  bool is_interval() const noexcept { return closed ? lower <= upper : lower < upper; }
};

/// The interval that `spec` names.
inline IntervalBounds interval_of(const CodecSpec& spec) noexcept {
  return {spec.lower, spec.upper, spec.closed};
}

/// @pre x is not NaN
CINCH_HD inline bool is_inside(float x, IntervalBounds bounds) noexcept {
  return bounds.closed ? x >= bounds.lower && x <= bounds.upper
                       : x > bounds.lower && x < bounds.upper;
}

/// The interval in one element type. Keys are those of key_order.h.
struct IntervalPatterns {
  std::int32_t below;     ///< key of the largest value below it; for ±0 the larger one
  std::int32_t above;     ///< key of the smallest value above it; for ±0 the smaller one
  std::uint32_t inside;   ///< pattern that bit 1 decodes to
  std::uint32_t outside;  ///< pattern that bit 0 decodes to

  /// Nullopt when the middle, rounded to the type, is not inside. @pre is_quantizable(type)
  static std::optional<IntervalPatterns> of(IntervalBounds bounds, ElementType type) noexcept;
};

class IntervalCodec : public Codec {
 public:
  explicit IntervalCodec(IntervalBounds bounds) noexcept;

  std::string_view name() const noexcept override { return "interval"; }
  Reads restores() const noexcept override { return Reads::interval; }
  /// float32, bfloat16 and float16, if IntervalPatterns::of has a result for the type.
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

/// @pre bounds.is_interval()
std::shared_ptr<const Codec> make_interval_reference(IntervalBounds bounds);
std::shared_ptr<const Codec> make_interval_cpu(IntervalBounds bounds);

}  // namespace cinch::codecs
