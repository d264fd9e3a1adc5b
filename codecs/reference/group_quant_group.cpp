// SPDX-License-Identifier: Apache-2.0
#include "codecs/reference/group_quant_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codecs/float_formats.h"
#include "codecs/philox.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs::reference {
namespace {

std::vector<std::uint32_t> draws_of(const GroupPlace& place, RandomKey key) {
  std::vector<std::uint32_t> draws;
  for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
    draws.push_back(philox::draw16(key, static_cast<std::uint64_t>(k)));
  }
  return draws;
}

}  // namespace

QuantizedGroup encode_group(std::span<const float> x, int bits,
                            std::span<const std::uint32_t> draws) {
  QuantizedGroup group;
  group.codes.resize(x.size());
  const bool holds = std::all_of(
      x.begin(), x.end(), [](float value) { return std::fabs(value) <= kAffineMaxMagnitude; });
  if (!holds) {
    group.range = poisoned_range();
    return group;
  }
  const auto [min, max] = std::minmax_element(x.begin(), x.end());
  group.range = affine_range(*min, *max, bits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    group.codes[i] = static_cast<std::uint8_t>(affine_code(
        x[i], float_of_bf16(group.range.lo), affine_scale(group.range), bits, draws[i]));
  }
  return group;
}

std::vector<float> decode_group(const QuantizedGroup& group) {
  std::vector<float> x(group.codes.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = affine_value(float_of_bf16(group.range.lo), float_of_bf16(group.range.step),
                        group.codes[i]);
  }
  return x;
}

std::vector<float> decode_group_dithered(const QuantizedGroup& group,
                                         std::span<const std::uint32_t> draws) {
  std::vector<float> x(group.codes.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = affine_value_dithered(float_of_bf16(group.range.lo), float_of_bf16(group.range.step),
                                 group.codes[i], draws[i]);
  }
  return x;
}

bool put_group(const GroupPlace& place, std::span<const float> x, RandomKey key,
               std::span<std::byte> out) {
  const QuantizedGroup group = encode_group(x, place.bits, draws_of(place, key));
  std::memcpy(out.data() + place.range, &group.range, 4);
  for (std::int64_t i = 0; i < place.count; ++i) {
    put_bits(out.subspan(place.codes), i * place.bits, place.bits, group.codes[i]);
  }
  return group.range != poisoned_range();
}

std::optional<std::vector<float>> get_group(const GroupPlace& place, std::optional<RandomKey> key,
                                            std::span<const std::byte> in) {
  QuantizedGroup group;
  std::memcpy(&group.range, in.data() + place.range, 4);
  if (group.range == poisoned_range()) return std::nullopt;
  group.codes.resize(place.count);
  for (std::int64_t i = 0; i < place.count; ++i) {
    group.codes[i] =
        static_cast<std::uint8_t>(get_bits(in.subspan(place.codes), i * place.bits, place.bits));
  }
  return key ? decode_group_dithered(group, draws_of(place, *key)) : decode_group(group);
}

}  // namespace cinch::codecs::reference
