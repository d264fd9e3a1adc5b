// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "codecs/codec.h"

namespace cinch::policy {

/// From this caution on nothing is approximated: 1 bit has been doubled three times.
inline constexpr int most_caution = 4;

/// `spec` with more precision, for entries of which the guard found `caution` times that it had too
/// little: bits doubled up to 8, or a quarter of the error bound, each time.
/// @return nothing when only an exact codec is left
std::optional<codecs::CodecSpec> with_caution(codecs::CodecSpec spec, int caution);

}  // namespace cinch::policy
