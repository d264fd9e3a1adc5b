// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "codecs/codec.h"
#include "codecs/dct.h"
#include "codecs/division.h"
#include "codecs/fixed_point.h"
#include "codecs/raw.h"
#include "codecs/sign.h"
#include "codecs/two_valued.h"
#include "codecs/window_index.h"

namespace cinch::codecs {
namespace {

using CodecPtr = std::shared_ptr<const Codec>;

CodecPtr make_division(const CodecSpec& spec, Engine engine) {
  if (spec.bits < 1 || spec.bits > 8 || spec.block < 1) return nullptr;
  const DivisionParameters parameters = {spec.bits, spec.block, spec.edge_ceil, spec.with_sign};
  return engine == Engine::cpu ? make_division_cpu(parameters)
                               : make_division_reference(parameters);
}

/// AC-GC's codecs hold every element within a bound, and no signs.
bool has_bound_and_no_sign(const CodecSpec& spec) {
  return spec.error_bound > 0.0F && std::isfinite(spec.error_bound) && !spec.with_sign;
}

CodecPtr make_dct(const CodecSpec& spec, Engine engine) {
  if (!has_bound_and_no_sign(spec)) return nullptr;
  const DctParameters parameters = {spec.error_bound, spec.zero_value};
  return engine == Engine::cpu ? make_dct_cpu(parameters) : make_dct_reference(parameters);
}

CodecPtr make_fixed_point(const CodecSpec& spec, Engine engine) {
  if (!has_bound_and_no_sign(spec)) return nullptr;
  const FixedPointParameters parameters = {spec.error_bound, spec.zero_value};
  return engine == Engine::cpu ? make_fixed_point_cpu(parameters)
                               : make_fixed_point_reference(parameters);
}

template <CodecPtr (*reference)(), CodecPtr (*cpu)()>
CodecPtr make_plain(const CodecSpec& /*spec*/, Engine engine) {
  return engine == Engine::cpu ? cpu() : reference();
}

struct Family {
  std::string_view name;
  CodecPtr (*make)(const CodecSpec&, Engine);
};

/// One line a codec, in alphabetical order.
constexpr std::array kFamilies = {
    Family{"dct", make_dct},
    Family{"division", make_division},
    Family{"fixed_point", make_fixed_point},
    Family{"raw", make_plain<make_raw_reference, make_raw_cpu>},
    Family{"sign", make_plain<make_sign_reference, make_sign_cpu>},
    Family{"two_valued", make_plain<make_two_valued_reference, make_two_valued_cpu>},
    Family{"window_index", make_plain<make_window_index_reference, make_window_index_cpu>},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kFamilies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kFamilies[i].name;
  return names;
}();

}  // namespace

CodecPtr make_codec(const CodecSpec& spec, Engine engine) {
  for (const Family& family : kFamilies) {
    if (family.name == spec.name) return family.make(spec, engine);
  }
  return nullptr;
}

std::span<const std::string_view> codec_names() noexcept {
  return kNames;
}

}  // namespace cinch::codecs
