// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codecs/codec.h"

namespace cinch::policy {

/// ActNN's |R_n|^2: for each plane of `what` the sum of the squared ranges of its groups of
/// `group` elements (Eq. 9). Reads every element once; sums in a fixed order. A range that is not
/// finite counts as 0: such data are not quantized anyway.
/// @pre what.type is quantizable
std::vector<float> plane_ranges(const codecs::Description& what, const void* source, int group);

/// ActNN's stage 1: the bits of each plane, 1 to 8, by the planes' ranges. Their mean is at most
/// `average`, but at least 1.
std::vector<std::uint8_t> plane_bits(std::span<const float> ranges, double average);

}  // namespace cinch::policy
