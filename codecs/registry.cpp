// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "codecs/codec.h"
#include "codecs/cpu/processor.h"
#include "codecs/formats/blpa.h"
#include "codecs/formats/dct.h"
#include "codecs/formats/division/division.h"
#include "codecs/formats/division/division_groups.h"
#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "codecs/formats/fixed_point.h"
#include "codecs/formats/group_quant.h"
#include "codecs/formats/lossless/exponent_pack.h"
#include "codecs/formats/lossless/narrow.h"
#include "codecs/formats/lossless/raw.h"
#include "codecs/formats/lossless/window_index.h"
#include "codecs/formats/masks/interval.h"
#include "codecs/formats/masks/sign.h"
#include "codecs/formats/masks/two_valued.h"
#include "codecs/formats/masks/with_bounds.h"
#include "codecs/formats/masks/with_sign.h"
#include "codecs/formats/two_sided.h"
#include "codecs/formats/without_zero_rows.h"

namespace cinch::codecs {
namespace {

using CodecPtr = std::shared_ptr<const Codec>;

bool has_bits(const CodecSpec& spec) {
  return spec.bits >= 1 && spec.bits <= 8;
}

bool is_group(int elements) {
  return elements >= 1 && elements % 8 == 0;
}

bool is_floor(float value) {
  return std::fabs(value) <= kAffineMaxMagnitude || value == kNoFloor;
}

bool has_error_bound(const CodecSpec& spec) {
  return spec.error_bound > 0.0F && std::isfinite(spec.error_bound);
}

CodecPtr make_blpa(const CodecSpec& spec, Engine engine) {
  if (!has_bits(spec)) return nullptr;
  const BlpaParameters parameters = {spec.bits, spec.with_sign};
  return engine == Engine::cpu ? make_blpa_cpu(parameters) : make_blpa_reference(parameters);
}

CodecPtr make_dct(const CodecSpec& spec, Engine engine) {
  if (!has_error_bound(spec)) return nullptr;
  const DctParameters parameters = {spec.error_bound, spec.zero_value};
  return engine == Engine::cpu ? make_dct_cpu(parameters) : make_dct_reference(parameters);
}

CodecPtr make_division(const CodecSpec& spec, Engine engine) {
  if (!has_bits(spec) || spec.block < 1) return nullptr;
  if (spec.residual_group != 0) {
    if (!is_group(spec.residual_group)) return nullptr;
    const DivisionGroupsParameters parameters = division_groups_of(spec);
    return engine == Engine::cpu ? make_division_groups_cpu(parameters)
                                 : make_division_groups_reference(parameters);
  }
  const DivisionParameters parameters = {spec.bits, spec.block, spec.edge_ceil, spec.with_sign};
  return engine == Engine::cpu ? make_division_cpu(parameters)
                               : make_division_reference(parameters);
}

CodecPtr make_error_bounded_ratio(const CodecSpec& spec, Engine engine) {
  if (!has_error_bound(spec) || spec.refresh < 1) return nullptr;
  return engine == Engine::cpu ? make_error_bounded_ratio_cpu(spec.error_bound, spec.refresh)
                               : make_error_bounded_ratio_reference(spec.error_bound, spec.refresh);
}

CodecPtr make_fixed_point(const CodecSpec& spec, Engine engine) {
  if (!has_error_bound(spec)) return nullptr;
  const FixedPointParameters parameters = {spec.error_bound, spec.zero_value};
  return engine == Engine::cpu ? make_fixed_point_cpu(parameters)
                               : make_fixed_point_reference(parameters);
}

CodecPtr make_group_quant(const CodecSpec& spec, Engine engine) {
  if (!has_bits(spec) || !is_group(spec.group) || !is_floor(spec.floor)) return nullptr;
  if (spec.roots && (!spec.subtractive_dither || spec.floor != kNoFloor)) return nullptr;
  const bool alone = spec.bits >= 2 && !spec.roots && spec.floor == kNoFloor;
  if (spec.zero_code && (!alone || spec.without_zero_rows)) return nullptr;
  const GroupQuantParameters parameters = group_quant_of(spec);
  CodecPtr groups = engine == Engine::cpu ? make_group_quant_cpu(parameters)
                                          : make_group_quant_reference(parameters);
  return spec.without_zero_rows ? make_without_zero_rows(std::move(groups)) : groups;
}

CodecPtr make_interval(const CodecSpec& spec, Engine engine) {
  const IntervalBounds bounds = interval_of(spec);
  if (!bounds.is_interval()) return nullptr;
  return engine == Engine::cpu ? make_interval_cpu(bounds) : make_interval_reference(bounds);
}

CodecPtr make_two_sided(const CodecSpec& spec, Engine engine) {
  if (!has_bits(spec) || spec.bits < 2 || !is_group(spec.group)) return nullptr;
  const TwoSidedParameters parameters = {
      .bits = spec.bits, .group = spec.group, .subtractive = spec.subtractive_dither};
  return engine == Engine::cpu ? make_two_sided_cpu(parameters)
                               : make_two_sided_reference(parameters);
}

template <CodecPtr (*reference)(), CodecPtr (*cpu)()>
CodecPtr make_plain(const CodecSpec& /*spec*/, Engine engine) {
  return engine == Engine::cpu ? cpu() : reference();
}

struct Family {
  std::string_view name;
  CodecPtr (*make)(const CodecSpec&, Engine);
  CodecTraits traits = {};
};

constexpr CodecTraits within_bound(Planes planes, Fidelity fidelity = Fidelity::approximate) {
  return {.fidelity = fidelity,
          .precision = Precision::error_bound,
          .planes = planes,
          .sized_by_data = true};
}
constexpr CodecTraits kBlpa = {.fidelity = Fidelity::approximate,
                               .precision = Precision::bits,
                               .planes = Planes::channels,
                               .holds_signs = true};
constexpr CodecTraits kDivision = {.fidelity = Fidelity::approximate,
                                   .precision = Precision::bits,
                                   .planes = Planes::maps,
                                   .keeps_means = true,
                                   .holds_signs = true};
constexpr CodecTraits kGroups = {.fidelity = Fidelity::approximate,
                                 .precision = Precision::bits,
                                 .planes = Planes::samples,
                                 .shares_ranges = true,
                                 .floats = kFloatTypes};
constexpr CodecTraits kTwoSided = {.fidelity = Fidelity::approximate,
                                   .precision = Precision::bits,
                                   .planes = Planes::samples,
                                   .holds_sides = true};

/// One line a codec, in alphabetical order.
constexpr std::array kFamilies = {
    Family{"blpa", make_blpa, kBlpa},
    Family{"dct", make_dct, within_bound(Planes::maps)},
    Family{"division", make_division, kDivision},
    Family{"error_bounded_ratio", make_error_bounded_ratio,
           within_bound(Planes::maps, Fidelity::exact_signs)},
    Family{"exponent_pack",
           make_plain<make_exponent_pack_reference, make_exponent_pack_cpu>,
           {.sized_by_data = true, .floats = kFloatTypes}},
    Family{"fixed_point", make_fixed_point, within_bound(Planes::channels)},
    Family{"group_quant", make_group_quant, kGroups},
    Family{"interval", make_interval, {.restores = Reads::interval}},
    Family{"narrow",
           make_plain<make_narrow_reference, make_narrow_cpu>,
           {.holds = Holds::integers, .sized_by_data = true}},
    Family{"raw", make_plain<make_raw_reference, make_raw_cpu>, {.holds = Holds::anything}},
    Family{"sign",
           make_plain<make_sign_reference, make_sign_cpu>,
           {.restores = Reads::sign, .floats = kFloatTypes}},
    Family{"two_sided", make_two_sided, kTwoSided},
    Family{"two_valued",
           make_plain<make_two_valued_reference, make_two_valued_cpu>,
           {.holds = Holds::flags}},
    Family{"window_index",
           make_plain<make_window_index_reference, make_window_index_cpu>,
           {.holds = Holds::window_indices, .sized_by_data = true}},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kFamilies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kFamilies[i].name;
  return names;
}();

}  // namespace

CodecPtr make_codec(const CodecSpec& spec, Engine engine) {
  if (!cpu::processor_has_target()) engine = Engine::reference;
  if (const auto beside_bounds = spec_beside_bounds(spec)) {
    if (!interval_of(spec).is_interval()) return nullptr;
    CodecPtr codec = make_codec(*beside_bounds, engine);
    if (codec == nullptr) return nullptr;
    for (const Bound bound : bounds_of(spec)) {
      codec = engine == Engine::cpu ? make_with_bound_cpu(std::move(codec), bound)
                                    : make_with_bound_reference(std::move(codec), bound);
    }
    return codec;
  }
  for (const Family& family : kFamilies) {
    if (family.name != spec.name) continue;
    const auto beside_signs = spec_beside_signs(spec);
    CodecPtr codec = family.make(beside_signs.value_or(spec), engine);
    if (codec == nullptr || !beside_signs) return codec;
    return engine == Engine::cpu ? make_with_sign_cpu(std::move(codec), spec.signed_values)
                                 : make_with_sign_reference(std::move(codec), spec.signed_values);
  }
  return nullptr;
}

std::optional<CodecTraits> codec_traits(std::string_view name) noexcept {
  for (const Family& family : kFamilies) {
    if (family.name == name) return family.traits;
  }
  return std::nullopt;
}

std::span<const std::string_view> codec_names() noexcept {
  return kNames;
}

}  // namespace cinch::codecs
