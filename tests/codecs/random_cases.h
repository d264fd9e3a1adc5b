// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/codecs/support.h"

/// Random shapes, memory formats and data that every engine of a codec is compared over.
namespace cinch::codecs::test {

using Random = std::mt19937;

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// How often a random case is tried: a quarter of `all` under a sanitizer, which makes each ten
/// times slower.
constexpr int rounds(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (all + 3) / 4;
#else
  return all;
#endif
}

/// Has the spec's residuals in groups of a random size, dithered or not.
inline void draw_residual_group(Random& random, CodecSpec& spec) {
  constexpr std::array kGroups = {8, 16, 64, 256, 264, 4096};
  spec.residual_group = kGroups[draw(random, 0, kGroups.size() - 1)];
  spec.subtractive_dither = draw(random, 0, 1) != 0;
}

/// Contiguous, channels-last, padded rows or transposed planes of 1 to 3 dimensions.
inline PlaneLayout random_layout(Random& random) {
  std::array<std::int64_t, 3> extent = {1, 1, 1};
  switch (draw(random, 0, 3)) {
    case 0:
      extent[2] = draw(random, 1, 700);
      break;
    case 1:
      extent[1] = draw(random, 1, 30);
      extent[2] = draw(random, 1, 40);
      break;
    case 2:
      for (auto& e : extent) e = draw(random, 1, 12);
      break;
    default:
      extent = {1, 8 * draw(random, 1, 3), 8 * draw(random, 1, 4)};
  }
  const std::int64_t outer = draw(random, 1, 6);
  const std::int64_t inner = draw(random, 1, 20);
  switch (draw(random, 0, 3)) {
    case 0:
      return channels_last(outer, inner, extent);
    case 1: {
      PlaneLayout padded = contiguous(outer, extent);
      padded.stride = {extent[1] * (extent[2] + 3), extent[2] + 3, 1};
      padded.outer_stride = extent[0] * padded.stride[0] + 5;
      return padded;
    }
    case 2: {
      PlaneLayout gaps = contiguous(outer, extent);
      gaps.outer_stride += 7;
      return gaps;
    }
    default:
      return contiguous(outer * inner, extent);
  }
}

/// Ordinary numbers, and now and then zeros of both signs, denormals, constants or large numbers.
inline std::vector<float> random_values(Random& random, const PlaneLayout& layout,
                                        bool non_negative) {
  std::vector<float> values(layout.elements());
  std::normal_distribution<float> normal;
  const std::int64_t kind = draw(random, 0, 6);
  for (std::int64_t k = 0; k < layout.elements(); ++k) {
    float x = normal(random);
    if (kind == 1) x = std::max(x, 0.0F);
    if (kind == 2) x *= 0x1p-130F;
    if (kind == 3) x = static_cast<float>(k / layout.plane_size()) * 0.37F;
    if (kind == 4) x *= 3000.0F;
    if (kind == 5) x = draw(random, 0, 1) != 0 ? 0.0F : -0.0F;
    if (kind == 6) x = x * 0x1p-20F + 1.0F;
    values[k] = non_negative && x < 0.0F ? -0.0F : x;
  }
  return values;
}

/// Normally distributed numbers; `relu`: those below 0 are 0.
inline Bytes normal_floats(const Description& what, bool relu) {
  Random random(3);
  std::normal_distribution<float> distribution;
  std::vector<float> values(what.layout.elements());
  for (float& x : values) x = distribution(random);
  if (relu) {
    for (float& x : values) x = std::max(x, 0.0F);
  }
  return make_source(what, values);
}

inline Bytes noise(const Description& what) {
  Random random(4);
  Bytes source(source_bytes(what));
  for (std::byte& b : source) b = static_cast<std::byte>(random());
  return source;
}

/// Whether an exact codec restores all 65536 elements of 16 bits, from less.
inline void expect_every_pattern(const CodecSpec& spec) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    const Description what{.type = type, .layout = PlaneLayout::rows(1 << 16, 1 << 16)};
    Bytes source(source_bytes(what));
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      reference::store_bits(source.data(), k, 2, static_cast<std::uint64_t>(k));
    }
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec, engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_LT(bytes.size(), source.size());
      EXPECT_EQ(decode(*codec, what, bytes), source);
    }
  }
}

/// Raw size over encoded size.
inline double ratio_of(const CodecSpec& spec, const Description& what, const Bytes& source) {
  const Bytes bytes = encode(*make_codec(spec), what, source);
  return static_cast<double>(source.size()) / static_cast<double>(bytes.size());
}

/// Floats, float64 too, of a kind for each `stretch` elements: noise, zeros of both signs,
/// constants, normal numbers and what a ReLU makes of them. Of a third of the tensors, from a
/// random element on, the lower half of an element's bits is 0 where it has 4 bytes or more.
inline Bytes mixed_floats(Random& random, const Description& what, std::int64_t stretch) {
  Bytes source(source_bytes(what), std::byte{0xA5});
  std::normal_distribution<float> normal;
  const std::int64_t kind = draw(random, 0, 5);
  const std::int64_t size = element_size(what.type);
  const std::int64_t elements = what.layout.elements();
  const bool halved = size >= 4 && draw(random, 0, 2) == 0;
  const std::int64_t halved_from = halved ? draw(random, 0, elements / 3) : elements;
  for (std::int64_t k = 0; k < elements; ++k) {
    std::uint64_t bits = 0;
    switch ((kind + k / stretch) % 6) {
      case 0:
        bits = random() * 0x100000001ULL;
        break;
      case 1:
        bits = draw(random, 0, 9) == 0 ? 0x8000000080008000U : 0;
        break;
      case 2:
        bits = k / 300 % 7 * 0x0101010101010101U;
        break;
      default: {
        const float x = normal(random);
        const bool zero = kind >= 4 && x < 0.0F;
        if (what.type == ElementType::float64) {
          bits = zero ? 0 : std::bit_cast<std::uint64_t>(double{x} * 1.1);
        } else {
          bits = bits_of(what.type, zero ? 0.0F : x);
        }
      }
    }
    if (k >= halved_from) bits = bits >> (4 * size) << (4 * size);
    reference::store_bits(source.data(), reference::offset_of(what.layout, k), size, bits);
  }
  return source;
}

/// Makes one to three elements infinities or NaNs of either sign.
inline void put_not_finite(Random& random, const Description& what, Bytes& source) {
  for (std::int64_t i = draw(random, 1, 3); i > 0; --i) {
    const std::array<std::uint64_t, 3> kBad = {bits_of_infinity(what.type), bits_of_nan(what.type),
                                               bits_of_infinity(what.type) + 1};
    reference::store_bits(
        source.data(),
        reference::offset_of(what.layout, draw(random, 0, what.layout.elements() - 1)),
        element_size(what.type),
        kBad[draw(random, 0, 2)] | draw(random, 0, 1) << (8 * element_size(what.type) - 1));
  }
}

/// Makes the lower half of each element's bits 0, as in numbers that were widened.
inline void clear_lower_halves(Bytes& source, std::size_t element_size) {
  for (std::size_t at = 0; at < source.size(); at += element_size) {
    std::fill_n(source.begin() + std::ptrdiff_t(at), element_size / 2, std::byte{0});
  }
}

/// Elements of one, two or sometimes three bit patterns.
inline Bytes random_patterns(Random& random, const Description& what) {
  Bytes source(source_bytes(what), std::byte{0xA5});
  const std::uint64_t patterns[3] = {random(), random(), random()};
  const std::int64_t kinds = draw(random, 0, 2);
  const std::int64_t rare = draw(random, 1, 40);
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    const std::int64_t kind = draw(random, 0, rare) == 0 ? draw(random, 0, kinds) : 0;
    reference::store_bits(source.data(), reference::offset_of(what.layout, k),
                          element_size_or_byte(what.type), patterns[kind]);
  }
  return source;
}

/// Indices of a random pooling, whose input `what` is then told of; sometimes a few damaged ones.
inline Bytes random_window_indices(Random& random, Description& what) {
  const std::array<std::int64_t, 3> stride = {draw(random, 1, 3), draw(random, 1, 3),
                                              draw(random, 1, 3)};
  const std::array<std::int64_t, 3> window = {draw(random, 1, 3), draw(random, 1, 5),
                                              draw(random, 1, 6)};
  for (int a = 0; a < 3; ++a) {
    what.index_extent[a] = (what.layout.extent[a] - 1) * stride[a] + window[a];
  }
  Bytes source(source_bytes(what), std::byte{0xA5});
  const bool damaged = draw(random, 0, 9) == 0;
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    std::int64_t rest = k % what.layout.plane_size();
    std::array<std::int64_t, 3> at;
    for (int a = 2; a >= 0; --a) {
      at[a] = rest % what.layout.extent[a] * stride[a] + draw(random, 0, window[a] - 1);
      rest /= what.layout.extent[a];
    }
    std::int64_t index = (at[0] * what.index_extent[1] + at[1]) * what.index_extent[2] + at[2];
    if (damaged && draw(random, 0, 300) == 0) {
      constexpr std::array<std::int64_t, 4> kStrange = {
          -1, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
          std::int64_t{1} << 32};
      index = kStrange[draw(random, 0, 3)];
    }
    reference::store_bits(source.data(), reference::offset_of(what.layout, k), 8,
                          static_cast<std::uint64_t>(index));
  }
  return source;
}

/// Puts a few numbers among `values` that no quantizer can hold.
inline void spoil(Random& random, std::vector<float>& values) {
  constexpr std::array kBad = {std::numeric_limits<float>::quiet_NaN(),
                               -std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               0x1.000002p80F,
                               -0x1p127F};
  if (values.empty()) return;
  for (std::int64_t i = draw(random, 1, 3); i > 0; --i) {
    values[draw(random, 0, std::ssize(values) - 1)] = kBad[draw(random, 0, std::ssize(kBad) - 1)];
  }
}

/// Quantizing codecs write their bytes whatever the source holds.
inline void expect_same_engines(const CodecSpec& spec, const Description& what, const Bytes& source,
                                RandomKey key) {
  const auto reference = make_codec(spec, Engine::reference);
  const auto cpu = make_codec(spec, Engine::cpu);
  ASSERT_TRUE(reference->accepts(what));
  ASSERT_TRUE(cpu->accepts(what));
  ASSERT_EQ(reference->encoded_bytes(what), cpu->encoded_bytes(what));
  const Encoding expected = encode_any(*reference, what, source, key);
  ASSERT_LE(expected.bytes.size(), reference->encoded_bytes(what));
  const bool quantizes = !is_exact(*cpu);
  for (const ParallelFor parallel : {serial_for, two_threads, every_grain}) {
    const Encoding encoding = encode_any(*cpu, what, source, key, parallel);
    ASSERT_EQ(encoding.representable, expected.representable);
    if (!expected.representable && !quantizes) continue;
    ASSERT_EQ(encoding.bytes, expected.bytes);
    for (const Reads reads : {Reads::nothing, Reads::sign, Reads::interval, Reads::values}) {
      const Bytes decoded = decode(*reference, what, expected.bytes, reads);
      ASSERT_EQ(decode(*cpu, what, expected.bytes, reads, parallel), decoded) << int(reads);
      if (reads == Reads::values && is_exact(*cpu) && cpu->restores() == Reads::values) {
        ASSERT_EQ(decoded, source);
      }
    }
  }
}

inline std::string describe(const Description& what, const CodecSpec& spec) {
  const PlaneLayout& l = what.layout;
  return spec.name + " type " + std::to_string(int(what.type)) + " Q " + std::to_string(spec.bits) +
         " B " + std::to_string(spec.block) + (spec.edge_ceil ? " ceil" : " paper") +
         (spec.with_sign ? " sign" : "") + (spec.with_bounds ? " bounds" : "") +
         (spec.subtractive_dither ? " dithered" : "") + " outer " + std::to_string(l.outer) +
         " inner " + std::to_string(l.inner) + " extent " + std::to_string(l.extent[0]) + "x" +
         std::to_string(l.extent[1]) + "x" + std::to_string(l.extent[2]);
}

inline constexpr std::array kTypes = {
    ElementType::float32, ElementType::bfloat16, ElementType::float16, ElementType::float64,
    ElementType::boolean, ElementType::uint8,    ElementType::int16,   ElementType::int32,
    ElementType::int64,   ElementType::other};
inline constexpr std::array kFloats = {ElementType::float32, ElementType::bfloat16,
                                       ElementType::float16};

/// A type that codecs with these traits take.
inline ElementType random_float(Random& random, const CodecTraits& traits) {
  std::vector<ElementType> taken;
  std::ranges::copy_if(kTypes, std::back_inserter(taken),
                       [&](ElementType type) { return traits.takes(type); });
  return taken[draw(random, 0, std::ssize(taken) - 1)];
}

/// Gives finite float64 elements numbers of more bits than float32 has; sometimes halfway between
/// two of float32. Other types stay as they are.
inline Bytes with_low_bits(Random& random, const Description& what, Bytes source) {
  if (what.type != ElementType::float64) return source;
  constexpr std::uint64_t kLow = (1U << 29) - 1;  // what float64's mantissa has beyond float32's
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    const std::int64_t offset = reference::offset_of(what.layout, k);
    const std::uint64_t bits = reference::load_bits(source.data(), offset, 8);
    if ((bits & ~bits_of_minus_zero(what.type)) >= bits_of_infinity(what.type)) continue;
    const std::uint64_t low = draw(random, 0, 7) == 0 ? 1U << 28 : random() & kLow;
    reference::store_bits(source.data(), offset, 8, bits ^ low);
  }
  return source;
}

}  // namespace cinch::codecs::test
