// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "codecs/codec.h"

namespace cinch::codecs::cpu {

/// Writes 1 for each set bit of `bits` and 0 for each other one, in the order of logical indices,
/// as elements of a floating-point type. @return false when memory ran out
/// @pre is_float(what.type); `bits` holds one bit for every element
bool decode_sign_bits(const Description& what, const std::byte* bits, void* target,
                      ParallelFor parallel);

}  // namespace cinch::codecs::cpu
