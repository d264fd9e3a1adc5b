// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/interval.h"

#include <algorithm>
#include <limits>

#include "codecs/element_bits.h"

namespace cinch::codecs {
namespace {

constexpr std::array kIntervalTypes = {ElementType::float32, ElementType::bfloat16,
                                       ElementType::float16};

std::uint32_t sign_bit(ElementType type) noexcept {
  return type == ElementType::float32 ? 0x80000000U : 0x8000U;
}

std::uint32_t pattern_of(ElementType type, std::int64_t key) noexcept {
  return static_cast<std::uint32_t>(key >= 0 ? key : sign_bit(type) | (-1 - key));
}

std::int64_t key_of(ElementType type, std::uint32_t pattern) noexcept {
  const std::uint32_t sign = sign_bit(type);
  return (pattern & sign) == 0 ? pattern : -1 - std::int64_t{pattern & ~sign};
}

/// The smallest key for whose value `holds` is true, between the keys of -infinity and +infinity;
/// one past the latter if there is none. @pre `holds` is true for all larger keys
template <class F>
std::int64_t first_key(ElementType type, const F& holds) noexcept {
  std::int64_t begin = key_of(type, sign_bit(type) | bits_of_infinity(type));
  std::int64_t end = key_of(type, bits_of_infinity(type)) + 1;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (holds(value_of(type, pattern_of(type, middle)))) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

}  // namespace

std::optional<IntervalPatterns> IntervalPatterns::of(IntervalBounds bounds,
                                                     ElementType type) noexcept {
  const std::int64_t below = first_key(type, [&](float x) { return x > bounds.lower; }) - 1;
  const std::int64_t above = first_key(type, [&](float x) { return x >= bounds.upper; });
  constexpr float kMax = std::numeric_limits<float>::max();
  const double ends = double{std::max(bounds.lower, -kMax)} + std::min(bounds.upper, kMax);
  const auto inside = static_cast<std::uint32_t>(bits_of(type, static_cast<float>(ends / 2)));
  const std::int64_t key = key_of(type, inside);
  if (key <= below || key >= above) return std::nullopt;
  return IntervalPatterns{static_cast<std::int32_t>(below), static_cast<std::int32_t>(above),
                          inside, pattern_of(type, below)};
}

IntervalCodec::IntervalCodec(IntervalBounds bounds) noexcept : bounds_(bounds) {
  for (const ElementType type : kIntervalTypes) {
    patterns_[static_cast<std::size_t>(type)] = IntervalPatterns::of(bounds, type);
  }
}

bool IntervalCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout) &&
         patterns_[static_cast<std::size_t>(what.type)].has_value();
}

}  // namespace cinch::codecs
