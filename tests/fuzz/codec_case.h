// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/codec.h"
#include "tests/codecs/support.h"

/// What one fuzzing input says: a codec by name and a line feed, Fields, and the rest, which is
/// encoded bytes or the source of them. Every input says something; bytes that are missing are 0.
namespace cinch::codecs::fuzz {

using test::Bytes;

enum class Mode : std::uint8_t {
  decode,  ///< the rest is decoded
  encode,  ///< what the rest says is encoded, and decoded again
  damage,  ///< what it says is encoded, damaged and decoded
};

/// Small numbers, each reduced to the range that it is used in.
struct Fields {
  float lower = 0.0F;
  float upper = 6.0F;
  float error_bound = 0.125F;
  Mode mode = Mode::decode;
  std::uint8_t type = 0;
  std::uint8_t layout = 0;
  std::uint8_t outer = 2;
  std::uint8_t inner = 3;
  std::array<std::uint8_t, 3> extent = {0, 4, 6};  ///< minus 1
  std::uint8_t stretch = 0;                        ///< 1 of 16 values makes rows 257 times as long
  std::uint8_t reads = 3;
  std::uint8_t bits = 2;
  std::uint8_t block = 8;
  std::uint8_t group = 32;  ///< of 8 elements
  std::uint8_t refresh = 1;
  std::uint8_t flags = kEdgeCeil | kZeroValue;
  /// Minus 1. The first is odd: what keeps means has residuals in groups.
  std::array<std::uint8_t, 3> index_extent = {0, 9, 13};
  std::uint8_t by_channel = 0;  ///< which numbers by channel are given
  std::uint8_t source = 0;      ///< what the rest is made into
  std::uint8_t seed = 0;
  std::uint8_t damages = 0;  ///< of 4 bytes each, at the beginning of the rest
  std::uint8_t cut = 0;      ///< bytes cut from the end of what was encoded

  static constexpr std::uint8_t kLong = 63;  ///< of 64 values, since long rows take time
  static constexpr std::uint8_t kEdgeCeil = 1;
  static constexpr std::uint8_t kWithSign = 2;
  static constexpr std::uint8_t kZeroValue = 4;
  static constexpr std::uint8_t kEveryGrain = 8;
  static constexpr std::uint8_t kSubtractive = 16;
};
static_assert(std::is_trivially_copyable_v<Fields>);

/// An input taken apart.
struct Case {
  CodecSpec spec;
  Fields fields;
  Description what;
  std::span<const std::byte> rest;
  std::vector<std::uint8_t> plane_bits;
  std::vector<float> by_channel;
  std::vector<float> sides;           ///< numbers of channels that `two_sided` has
  std::vector<std::int64_t> offsets;  ///< in memory, by logical index, in elements

  explicit Case(std::span<const std::byte> input);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Mode mode() const { return static_cast<Mode>(static_cast<int>(fields.mode) % 3); }
  Reads reads() const { return static_cast<Reads>(fields.reads % kReadsCount); }
  ParallelFor parallel() const {
    return (fields.flags & Fields::kEveryGrain) != 0 ? test::every_grain : serial_for;
  }
  /// Elements made of the rest, `damages` left out.
  Bytes source() const;
  /// What `encoded` is after the damages.
  Bytes damaged(Bytes encoded) const;

 private:
  /// Numbers of channels of random lengths, where `by_channel` says so.
  void give_sides();
};

/// The input that says so.
inline Bytes input_of(std::string_view name, const Fields& fields,
                      std::span<const std::byte> rest) {
  Bytes input(name.size() + 1 + sizeof fields + rest.size());
  std::memcpy(input.data(), name.data(), name.size());
  input[name.size()] = std::byte{'\n'};
  std::memcpy(input.data() + name.size() + 1, &fields, sizeof fields);
  std::ranges::copy(rest, input.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return input;
}

/// A few inputs for every codec that is registered, to start from.
inline std::vector<Bytes> seed_inputs() {
  std::vector<Bytes> inputs;
  Bytes rest(96);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = static_cast<std::byte>(i * 37);
  for (const std::string_view name : codec_names()) {
    for (std::uint8_t i = 0; i < 48; ++i) {
      Fields fields;
      fields.mode = static_cast<Mode>(i % 3);
      fields.type = static_cast<std::uint8_t>(i % 10);
      fields.layout = static_cast<std::uint8_t>(i / 3 % 4);
      fields.reads = static_cast<std::uint8_t>(i % 5 == 0 ? i : 3);
      fields.bits = static_cast<std::uint8_t>(1 + i % 8);
      fields.flags = static_cast<std::uint8_t>(i * 5);
      fields.by_channel = static_cast<std::uint8_t>(i % 7 == 0 ? 0xF : i % 3 << 4);
      fields.seed = static_cast<std::uint8_t>(i / 2);
      fields.source = static_cast<std::uint8_t>(i / 4);
      fields.damages = static_cast<std::uint8_t>(i % 4);
      fields.stretch = i >= 44 ? Fields::kLong : 0;
      if (codec_traits(name)->keeps_means) fields.index_extent[0] = i / 12 % 2;
      inputs.push_back(input_of(name, fields, rest));
    }
  }
  return inputs;
}

namespace detail {

/// The codec whose name begins most like the line, so that most mutations of a name still are one.
inline std::string_view codec_name(std::string_view line) {
  const auto alike = [line](std::string_view name) {
    return std::ranges::mismatch(name, line).in1 - name.begin();
  };
  return *std::ranges::max_element(codec_names(), {}, alike);
}

/// Elements at most. Long rows have more than one chunk, run or tile of any codec.
inline constexpr std::int64_t kMostElements = 640;
inline constexpr std::int64_t kMostLong = 70000;

inline PlaneLayout layout_of(const Fields& f) {
  std::array<std::int64_t, 3> extent = {f.extent[0] % 4 + 1, f.extent[1] % 16 + 1, f.extent[2] + 1};
  std::int64_t outer = f.outer % 8;
  std::int64_t inner = f.inner % 20 + 1;
  const bool longer = f.stretch % 64 == Fields::kLong;
  const std::int64_t most = longer ? kMostLong : kMostElements;
  if (longer) extent[2] *= 257;
  if (extent[0] * extent[1] * extent[2] > most) extent[0] = extent[1] = 1;
  const std::int64_t plane = extent[0] * extent[1] * extent[2];
  inner = std::clamp<std::int64_t>(most / plane, 1, inner);
  outer = std::min(outer, std::max<std::int64_t>(1, most / plane / inner));
  switch (f.layout % 4) {
    case 0:
      return test::contiguous(outer * inner, extent);
    case 1:
      return test::channels_last(outer, inner, extent);
    case 2: {
      PlaneLayout padded = test::contiguous(outer, extent);
      padded.stride = {extent[1] * (extent[2] + 3), extent[2] + 3, 1};
      padded.outer_stride = extent[0] * padded.stride[0] + 5;
      return padded;
    }
    default: {
      PlaneLayout channels = test::contiguous(outer, extent);
      channels.inner = inner;
      channels.inner_stride = channels.outer_stride;
      channels.outer_stride = inner * channels.inner_stride + 1;
      return channels;
    }
  }
}

}  // namespace detail

inline Case::Case(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const std::string_view line = text.substr(0, std::min<std::size_t>(text.find('\n'), 32));
  spec.name = detail::codec_name(line);
  rest = input.subspan(std::min(input.size(), line.size() + 1));
  std::array<std::byte, sizeof(Fields)> bytes = {};
  const std::size_t given = std::min(rest.size(), bytes.size());
  std::copy_n(rest.begin(), given, bytes.begin());
  std::memcpy(&fields, bytes.data(), bytes.size());
  rest = rest.subspan(given);

  spec.bits = fields.bits % 10;
  spec.block = fields.block;
  spec.group = 8 * fields.group;
  if (fields.index_extent[0] % 2 != 0) spec.residual_group = spec.group;
  spec.refresh = fields.refresh;
  spec.edge_ceil = (fields.flags & Fields::kEdgeCeil) != 0;
  spec.with_sign = (fields.flags & Fields::kWithSign) != 0;
  spec.signed_values = static_cast<SignedValues>((fields.flags >> 5) % 3);
  spec.zero_value = (fields.flags & Fields::kZeroValue) != 0;
  spec.subtractive_dither = (fields.flags & Fields::kSubtractive) != 0;
  spec.roots = spec.subtractive_dither && fields.index_extent[0] % 2 != 0;
  spec.zero_code = fields.index_extent[1] % 4 == 2;
  spec.error_bound = fields.error_bound;
  spec.lower = fields.lower;
  spec.upper = fields.upper;
  spec.closed = fields.index_extent[2] % 2 != 0;
  spec.with_bounds = fields.index_extent[1] % 2 != 0;

  what.type = static_cast<ElementType>(fields.type % 10);
  what.layout = detail::layout_of(fields);
  for (int axis = 0; axis < 3; ++axis) what.index_extent[axis] = fields.index_extent[axis] + 1;
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    offsets.push_back(reference::offset_of(what.layout, k));
  }
  const std::int64_t channels = what.layout.channels();
  if ((fields.by_channel & 1) != 0) {
    for (std::int64_t p = 0; p < what.layout.planes(); ++p) {
      plane_bits.push_back(static_cast<std::uint8_t>(1 + (fields.seed + p * 5) % 8));
    }
    what.plane_bits = plane_bits;
  }
  for (std::int64_t i = 0; i < 3 * channels; ++i) {
    by_channel.push_back(0.125F * static_cast<float>(1 + (fields.seed + i) % 11));
  }
  if ((fields.by_channel & 2) != 0) what.channel_center = by_channel.data();
  if ((fields.by_channel & 4) != 0) what.channel_scale = by_channel.data() + channels;
  if ((fields.by_channel & 8) != 0) what.channel_bound = by_channel.data() + 2 * channels;
  give_sides();
}

inline void Case::give_sides() {
  const std::array<std::int64_t, 3>& extent = what.layout.extent;
  const std::array<std::int64_t, 4> runs = {1, extent[2], extent[1] * extent[2],
                                            what.layout.plane_size()};
  what.sides.run = runs[fields.seed % 4];
  const std::int64_t count = what.layout.plane_size() / what.sides.run;
  for (std::int64_t i = 0; i < 4 * count; ++i) {
    sides.push_back(0.25F * static_cast<float>((fields.seed + i * 7) % 13 - 3));
  }
  if ((fields.by_channel & 16) != 0) {
    what.sides.factor = sides.data();
    what.sides.summand = sides.data() + count;
  }
  if ((fields.by_channel & 32) != 0) {
    what.sides.center = sides.data() + 2 * count;
    what.sides.spread = sides.data() + 3 * count;
  }
}

inline Bytes Case::source() const {
  Bytes source(test::source_bytes(what), std::byte{0xA5});
  const auto raw = rest.subspan(std::min<std::size_t>(rest.size(), 4 * (fields.damages % 8)));
  const auto byte = [&](std::int64_t i) {
    return raw.empty() ? 0 : std::to_integer<int>(raw[i % std::int64_t(raw.size())]);
  };
  const std::size_t size = element_size_or_byte(what.type);
  const PlaneLayout& layout = what.layout;
  const int kind = fields.source % 4;
  for (std::int64_t k = 0; k < layout.elements(); ++k) {
    std::uint64_t bits = 0;
    if (kind == 0) {  // the bytes as they are, again and again
      for (std::size_t b = 0; b < size; ++b) {
        bits |= std::uint64_t(byte(k * std::int64_t(size) + b)) << (8 * b);
      }
    } else if (is_float(what.type)) {  // numbers of either sign, or a ReLU's output
      const float x = 0.0625F * static_cast<float>(static_cast<std::int8_t>(byte(k)));
      bits = bits_of(what.type, kind == 1 && x < 0.0F ? 0.0F : x);
    } else if (kind == 1) {  // small integers, a few of them negative
      bits = static_cast<std::uint64_t>(std::int64_t{byte(k)} - 8);
    } else {  // indices of windows' largest elements
      std::int64_t within = k % layout.plane_size();
      std::array<std::int64_t, 3> at;
      for (int axis = 2; axis >= 0; --axis) {
        const std::int64_t extent = what.index_extent[axis];
        const std::int64_t origin = within % layout.extent[axis] * extent / layout.extent[axis];
        at[axis] = std::min(extent - 1, origin + (byte(k) >> (2 * axis)) % kind);
        within /= layout.extent[axis];
      }
      bits = static_cast<std::uint64_t>(
          (at[0] * what.index_extent[1] + at[1]) * what.index_extent[2] + at[2]);
    }
    reference::store_bits(source.data(), offsets[k], size, bits);
  }
  return source;
}

inline Bytes Case::damaged(Bytes encoded) const {
  for (std::size_t i = 0; i < fields.damages % 8U && 4 * i + 4 <= rest.size(); ++i) {
    std::uint16_t at;
    std::uint16_t change;
    std::memcpy(&at, rest.data() + 4 * i, 2);
    std::memcpy(&change, rest.data() + 4 * i + 2, 2);
    // Headers and tables are at the front; a place may be hit by two damages.
    for (std::size_t b = 0; b < 2 && at + b < encoded.size(); ++b) {
      encoded[at + b] ^= static_cast<std::byte>(change >> (8 * b));
    }
  }
  encoded.resize(encoded.size() - std::min<std::size_t>(encoded.size(), fields.cut % 32));
  encoded.shrink_to_fit();
  return encoded;
}

}  // namespace cinch::codecs::fuzz
