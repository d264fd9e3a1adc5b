// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/interval.h"

#include <algorithm>
#include <limits>

#include "codecs/key_order.h"

namespace cinch::codecs {
std::optional<IntervalPatterns> IntervalPatterns::of(IntervalBounds bounds,
                                                     ElementType type) noexcept {
  const auto is_above_lower = [&](float x) {
    return bounds.closed ? x >= bounds.lower : x > bounds.lower;
  };
  const auto is_above = [&](float x) {
    return bounds.closed ? x > bounds.upper : x >= bounds.upper;
  };
  const std::int64_t below = first_key(type, is_above_lower) - 1;
  const std::int64_t above = first_key(type, is_above);
  constexpr float kMax = std::numeric_limits<float>::max();
  const double ends =
      double{std::clamp(bounds.lower, -kMax, kMax)} + double{std::clamp(bounds.upper, -kMax, kMax)};
  const auto inside = static_cast<std::uint32_t>(bits_of(type, static_cast<float>(ends / 2)));
  const std::int64_t key = key_of(type, inside);
  if (key <= below || key >= above) return std::nullopt;
  const bool has_below = below >= key_of_minus_infinity(type);
  return IntervalPatterns{static_cast<std::int32_t>(below), static_cast<std::int32_t>(above),
                          inside, pattern_of(type, has_below ? below : above)};
}

IntervalCodec::IntervalCodec(IntervalBounds bounds) noexcept : bounds_(bounds) {
  for (const ElementType type : kKeyedTypes) {
    patterns_[static_cast<std::size_t>(type)] = IntervalPatterns::of(bounds, type);
  }
}

bool IntervalCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout) &&
         patterns_[static_cast<std::size_t>(what.type)].has_value();
}

}  // namespace cinch::codecs
