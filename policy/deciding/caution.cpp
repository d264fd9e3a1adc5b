// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/caution.h"

#include <algorithm>

namespace cinch::policy {

std::optional<codecs::CodecSpec> with_caution(codecs::CodecSpec spec, int caution) {
  constexpr int most_bits = 8;
  const auto traits = codecs::codec_traits(spec.name);
  for (; caution > 0; --caution) {
    if (!traits) return std::nullopt;
    switch (traits->precision) {
      case codecs::Precision::none:
        return std::nullopt;
      case codecs::Precision::bits:
        if (spec.bits >= most_bits) return std::nullopt;
        spec.bits = std::min(2 * spec.bits, most_bits);
        break;
      case codecs::Precision::error_bound:
        if (caution >= most_caution) return std::nullopt;
        spec.error_bound /= 4;
        break;
    }
  }
  return spec;
}

}  // namespace cinch::policy
