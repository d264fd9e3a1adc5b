// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "codecs/codec.h"

namespace cinch::policy {

/// At this caution nothing is approximated: 1 bit was already doubled three times.
inline constexpr int most_caution = 4;

/// Makes `spec` more precise for entries that the guard found too far off `caution` times. Each
/// time doubles the bits, up to 8, or divides the error bound by 4.
/// @return nothing when only an exact codec is left
std::optional<codecs::CodecSpec> with_caution(codecs::CodecSpec spec, int caution);

}  // namespace cinch::policy
