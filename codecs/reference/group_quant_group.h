// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/formats/group_quant.h"

/// Per-group quantization of one group, as ActNN's section 4.1 and `codecs/formats/group_quant.h`
/// define it. This is the specification: every engine's bytes are checked against it.
namespace cinch::codecs::reference {

/// One group, compressed.
struct QuantizedGroup {
  AffineRange range;
  std::vector<std::uint8_t> codes;  ///< one an element
};

/// `x`, not empty, and `draws` (each 0..65535) have one entry an element.
QuantizedGroup encode_group(std::span<const float> x, int bits,
                            std::span<const std::uint32_t> draws);

/// @pre the range is not poisoned
std::vector<float> decode_group(const QuantizedGroup& group);

/// The same with subtractive dithering; `draws` are encode_group's.
std::vector<float> decode_group_dithered(const QuantizedGroup& group,
                                         std::span<const std::uint32_t> draws);

/// A group's elements, and the offsets of its encoded parts.
struct GroupPlace {
  std::int64_t begin;  ///< logical index of its first element
  std::int64_t count;
  int bits;
  std::int64_t range;
  std::int64_t codes;
};

/// Calls f(place) for each group, in logical order. @param plane_bits as in GroupQuantSections
template <typename F>
void for_each_group(const GroupQuantParameters& parameters, const PlaneLayout& layout,
                    std::span<const std::uint8_t> plane_bits, F f) {
  const GroupQuantSections at(parameters, layout, plane_bits);
  const std::int64_t size = layout.plane_size();
  const std::int64_t group = parameters.group;
  std::int64_t codes = at.codes;
  for (std::int64_t p = 0; p < layout.planes(); ++p) {
    const int bits = plane_bits.empty() ? parameters.bits : plane_bits[p];
    for (std::int64_t g = 0; g < at.groups; ++g) {
      f(GroupPlace{p * size + g * group, std::min(group, size - g * group), bits,
                   at.ranges + (p * at.groups + g) * 4, codes + g * group / 8 * bits});
    }
    codes += group_quant_code_bytes(size, bits);
  }
}

/// Encodes the group's elements `x` to its place in `out`, which holds zeros there.
/// @return whether it is representable
bool put_group(const GroupPlace& place, std::span<const float> x, RandomKey key,
               std::span<std::byte> out);

/// The group's elements; nothing if it is poisoned.
/// @param key that of the encoding, with subtractive dithering
std::optional<std::vector<float>> get_group(const GroupPlace& place, std::optional<RandomKey> key,
                                            std::span<const std::byte> in);

}  // namespace cinch::codecs::reference
