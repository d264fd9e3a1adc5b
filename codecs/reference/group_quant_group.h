// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codecs/affine.h"

/// Per-group quantization of one group, as ActNN's section 4.1 and `codecs/group_quant.h` define
/// it. This is the specification: every engine's bytes are checked against it.
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

}  // namespace cinch::codecs::reference
