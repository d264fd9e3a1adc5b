// SPDX-License-Identifier: Apache-2.0
#include "codecs/reference/group_quant_group.h"

#include <algorithm>
#include <cmath>

#include "codecs/float_formats.h"

namespace cinch::codecs::reference {

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

}  // namespace cinch::codecs::reference
