// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "codecs/cuda/families.h"

namespace cinch::codecs::cuda {
namespace {

struct Family {
  std::string_view name;
  std::shared_ptr<const DeviceCodec> (*make)(const CodecSpec&);
  bool signs_beside = false;  ///< with_sign.h implements CodecSpec::with_sign for it
};

/// One line a codec, in alphabetical order.
constexpr std::array kFamilies = {
    Family{"blpa", make_blpa_cuda},
    Family{"dct", make_dct_cuda, true},
    Family{"division", make_division_cuda},
    Family{"error_bounded_ratio", make_error_bounded_ratio_cuda},
    Family{"exponent_pack", make_exponent_pack_cuda},
    Family{"fixed_point", make_fixed_point_cuda, true},
    Family{"group_quant", make_group_quant_cuda, true},
    Family{"interval", make_interval_cuda},
    Family{"narrow", make_narrow_cuda},
    Family{"raw", make_raw_cuda},
    Family{"sign", make_sign_cuda},
    Family{"two_valued", make_two_valued_cuda},
    Family{"window_index", make_window_index_cuda},
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_device_codec(const CodecSpec& spec) {
  const auto* const family = std::ranges::find(kFamilies, spec.name, &Family::name);
  if (family == kFamilies.end() || codecs::make_codec(spec) == nullptr) return nullptr;
  auto codec = family->make(spec);
  return spec.with_sign && family->signs_beside ? make_with_sign_cuda(std::move(codec)) : codec;
}

}  // namespace cinch::codecs::cuda
