// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "codecs/cuda/library/families.h"
#include "codecs/formats/masks/with_bounds.h"
#include "codecs/formats/masks/with_sign.h"

namespace cinch::codecs::cuda {
namespace {

struct Family {
  std::string_view name;
  std::shared_ptr<const DeviceCodec> (*make)(const CodecSpec&);
};

/// One line a codec, in alphabetical order.
constexpr std::array kFamilies = {
    Family{"blpa", make_blpa_cuda},
    Family{"dct", make_dct_cuda},
    Family{"division", make_division_cuda},
    Family{"error_bounded_ratio", make_error_bounded_ratio_cuda},
    Family{"exponent_pack", make_exponent_pack_cuda},
    Family{"fixed_point", make_fixed_point_cuda},
    Family{"group_quant", make_group_quant_cuda},
    Family{"interval", make_interval_cuda},
    Family{"narrow", make_narrow_cuda},
    Family{"raw", make_raw_cuda},
    Family{"sign", make_sign_cuda},
    Family{"two_sided", make_two_sided_cuda},
    Family{"two_valued", make_two_valued_cuda},
    Family{"window_index", make_window_index_cuda},
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_device_codec(const CodecSpec& spec) {
  const auto* const family = std::ranges::find(kFamilies, spec.name, &Family::name);
  if (family == kFamilies.end() || codecs::make_codec(spec) == nullptr) return nullptr;
  if (const auto beside_bounds = spec_beside_bounds(spec)) {
    auto codec = make_device_codec(*beside_bounds);
    for (const Bound bound : bounds_of(spec)) {
      if (codec != nullptr) codec = make_with_bound_cuda(std::move(codec), bound);
    }
    return codec;
  }
  const auto beside_signs = spec_beside_signs(spec);
  auto codec = family->make(beside_signs.value_or(spec));
  return beside_signs ? make_with_sign_cuda(std::move(codec), spec.signed_values) : codec;
}

}  // namespace cinch::codecs::cuda
