// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/need.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "policy/adapting/layer.h"
#include "policy/algorithms/algorithm.h"
#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::CodecSpec;
using codecs::ElementType;
using codecs::Reads;
using Level = Need::Level;

constexpr std::string_view not_finite = "not finite, or too large in magnitude";
constexpr std::string_view no_rule = "no rule chooses a codec";
constexpr std::string_view no_codec = "element type without a codec";

CodecSpec named(std::string_view codec) {
  CodecSpec spec;
  spec.name = codec;
  return spec;
}

bool is_mask_type(ElementType type) noexcept {
  return type == ElementType::boolean || type == ElementType::uint8;
}

bool takes(std::string_view codec, ElementType type) noexcept {
  const auto traits = codecs::codec_traits(codec);
  return traits && traits->takes(type);
}

/// An exact need: floats are compressed without loss where the policy covers all floats.
/// @param may_be_mask Whether the values may be those of a mask, which is often stored as a byte or
/// a float per element
Need exactly(const Settings& settings, const Use& use, std::string_view reason, bool may_be_mask) {
  Need need{Level::exact, {}, reason};
  const bool is_float = codecs::is_float(use.type);
  if (is_float && (algorithm_of(settings).exact || !settings.others.keep)) {
    need.spec = named(codecs::kLosslessFloats);
  }
  need.may_be_mask = may_be_mask && (is_float || is_mask_type(use.type));
  return need;
}

bool is_linear(std::string_view op) noexcept {
  return op == "aten::addmm" || op == "aten::mm" || op == "aten::linear";
}

/// Statistics and log-sum-exp, which have to be exact, come out of a compiled region without a
/// name; they hold one value a row.
bool may_be_statistics(const Use& use) noexcept {
  return use.geometry.sizes.size() < 2 || use.geometry.sizes.back() == 1;
}

/// Whether a compiled region's tensor is held as an operator's operand of these facts. What has to
/// be exact is so whatever the policy says of compiled regions. (Complex functions have poles.)
bool follows_facts(const Settings& settings, const Use& use, const OperandFact& fact) noexcept {
  switch (kind_of(fact, use)) {
    case OperandKind::exact:
    case OperandKind::exact_unless_named:
      return true;
    case OperandKind::activation:
    case OperandKind::factor:
      return settings.compiled_by_facts && !settings.others.keep && !use.is_complex;
    default:
      return false;
  }
}

/// Whether a compiled region's tensor may hold statistics: its factors may have one value a plane.
bool may_be_statistics(const Use& use, OperandKind kind) noexcept {
  const auto& sizes = use.geometry.sizes;
  if (use.origin != Origin::compiled) return false;
  if (may_be_statistics(use)) return true;
  return kind == OperandKind::factor && std::ranges::find(sizes.subspan(1), 1) != sizes.end();
}

Need treated(const Settings& settings, const Treatment& treatment, const Use& use,
             std::string_view kept_because) {
  if (treatment.keep || !codecs::is_float(use.type)) {
    return exactly(settings, use, kept_because, true);
  }
  const auto traits = codecs::codec_traits(treatment.codec.name);
  if (traits->fidelity == codecs::Fidelity::exact) {
    return {Level::exact, treatment.codec, "no smaller when held losslessly"};
  }
  if (!traits->takes(use.type) || may_be_statistics(use)) {
    return exactly(settings, use, kept_because, true);
  }
  return {Level::approximate, treatment.codec, not_finite};
}

/// `others` for angles: with half the step that its bits give a range of 8 as the largest absolute
/// error, e. (Cosine's mean shrinks by e²/12 or so.)
Treatment for_angles(Treatment others) {
  const auto traits = codecs::codec_traits(others.codec.name);
  if (!others.keep && traits->precision == codecs::Precision::bits) {
    const int bits = others.codec.bits;
    others.codec = named("fixed_point");
    others.codec.error_bound = std::ldexp(4.0F, -bits);
  }
  return others;
}

Need chosen_need(const Choice& choice) {
  switch (choice.action) {
    case Choice::Action::keep:
      return {Level::exact, {}, "the policy keeps it for now"};
    case Choice::Action::lossless:
      return {Level::exact, named(codecs::kLosslessFloats), "no smaller when held losslessly"};
    case Choice::Action::encode:
      break;
  }
  return {Level::approximate, choice.spec, not_finite, true};
}

/// The least bits of the input of a norm over channels whose planes have `elements`.
///
/// Maps of low resolution take few bytes. Weights' gradients add up few of their places, so errors
/// average out less; most where smooth activations follow, as behind group norms.
///
/// A group of 256 neighbours mixes channels where their planes are small, and their means may lie
/// far apart. A batch norm divides what is left of a channel without its mean by its spread, so
/// errors of a share of a group's range would be many times that.
int least_bits_of_planes(bool is_batch_norm, std::int64_t elements) {
  if (!is_batch_norm) return elements <= 256 ? 4 : 1;
  if (elements < 16) return 8;
  if (elements < 64) return 6;
  return elements == 64 ? 4 : 1;
}

/// `spec`, the policy's codec, with the bits that a norm's input needs.
CodecSpec with_bits_for_planes(CodecSpec spec, const Use& use) {
  const auto sizes = use.geometry.sizes;
  const bool groups = codecs::codec_traits(spec.name)->shares_ranges;
  const bool is_batch_norm = layer_kind(use.op) == LayerKind::batch_norm;
  const bool is_norm = is_batch_norm || functional_name(use.op) == "aten::native_group_norm";
  if (!groups || !is_norm || sizes.size() < 2) return spec;
  const auto plane = sizes.subspan(2);
  const std::int64_t elements =
      std::accumulate(plane.begin(), plane.end(), std::int64_t{1}, std::multiplies<>());
  spec.bits = std::max(spec.bits, least_bits_of_planes(is_batch_norm, elements));
  return spec;
}

/// That of an operand that tolerates approximation.
/// @param kind activation, factor or angle
Need approximate_need(const Settings& settings, const Use& use, const OperandFact& fact,
                      OperandKind kind, const Choice* choice) {
  const bool is_factor = kind == OperandKind::factor;
  // Under "off" the stash exists only for rescues, whose first steps change no result.
  const Algorithm& algorithm = algorithm_of(settings);
  if (algorithm.exact && codecs::is_float(use.type)) {
    return exactly(settings, use, "no smaller when held losslessly", is_factor);
  }
  if (kind == OperandKind::angle) {
    return treated(settings, for_angles(settings.others), use, no_rule);
  }
  if (is_factor) {
    Need need = treated(settings, settings.others, use, no_rule);
    if (need.level == Level::approximate) need.may_be_mask = true;
    return need;
  }
  if (!codecs::is_float(use.type)) {
    return exactly(settings, use, no_codec, is_mask_type(use.type));
  }
  // Directors choose among codecs of which most take no float64.
  const bool is_adaptive = algorithm.director != nullptr;
  if (choice != nullptr && codecs::is_quantizable(use.type)) return chosen_need(*choice);
  std::string_view kept_because =
      is_adaptive && !codecs::is_quantizable(use.type) ? no_codec : no_rule;
  const bool is_classic = fact.spatial || is_linear(functional_name(use.op));
  if (is_classic && algorithm.codec != nullptr) {
    CodecSpec spec = with_bits_for_planes(algorithm.codec(settings), use);
    if (takes(spec.name, use.type)) return {Level::approximate, std::move(spec), not_finite};
    kept_because = no_codec;
  }
  if (settings.others.keep) return exactly(settings, use, kept_because, false);
  return treated(settings, settings.others, use, kept_because);
}

Need default_need(const Settings& settings, const Use& use, const OperandFact& fact,
                  const Choice* choice) {
  switch (use.origin) {
    case Origin::compiled:
      if (!follows_facts(settings, use, fact)) {
        return treated(settings, settings.compiled, use, "saved by a compiled region");
      }
      break;
    case Origin::function:
      return treated(settings, settings.functions, use, "saved by a custom autograd.Function");
    case Origin::op:
      break;
  }
  if (reads_of(fact, use) == Reads::nothing) return {Level::nothing, {}, {}};
  if (fact.reads == Reads::sign && takes("sign", use.type)) {
    return {Level::sign, {}, "data that a sign mask cannot stand for"};
  }
  if (const auto bounds = interval_of(fact, use); bounds && takes("interval", use.type)) {
    CodecSpec spec = named("interval");
    spec.lower = bounds->lower;
    spec.upper = bounds->upper;
    spec.closed = bounds->closed;
    return {Level::interval, std::move(spec), "data that an interval mask cannot stand for"};
  }
  const OperandKind kind = kind_of(fact, use);
  switch (kind) {
    case OperandKind::window_index:
      if (std::ranges::find(use.index_extent, 0) == use.index_extent.end()) {
        return {Level::exact, named("window_index"), "pooling indices outside any window"};
      }
      return exactly(settings, use, "pooling indices into a plane of unknown extent", false);
    case OperandKind::compared:
    case OperandKind::exact:
    case OperandKind::exact_unless_named:
      return exactly(settings, use, "has to be exact", fact.may_be_mask || is_mask_type(use.type));
    case OperandKind::base:
    case OperandKind::normed:
    case OperandKind::reduced:
    case OperandKind::unknown:
      return exactly(settings, use, "not known to tolerate approximation", true);
    case OperandKind::activation:
    case OperandKind::angle:
    case OperandKind::factor:
      break;
  }
  if (may_be_statistics(use, kind)) return exactly(settings, use, "has to be exact", true);
  return approximate_need(settings, use, fact, kind, choice);
}

/// float64 gets twice the bits that a policy names for floats: the same ratio as float32, and the
/// errors that who computes in double precision expects.
Need with_bits_for_type(Need need, const Use& use) {
  constexpr int most_bits = 8;
  if (need.level == Level::approximate && use.type == ElementType::float64) {
    need.spec.bits = std::min(2 * need.spec.bits, most_bits);
  }
  return need;
}

/// Whether the facts let `rule` hold `use` approximately.
bool may_lose(const Rule& rule, const Use& use, const OperandFact& fact) noexcept {
  if (use.is_magnified) return false;
  switch (fact.kind) {
    case OperandKind::compared:
    case OperandKind::exact:
    case OperandKind::window_index:
      return false;
    case OperandKind::exact_unless_named:
      return rule.op == functional_name(use.op);
    case OperandKind::base:
      return kind_of(fact, use) != OperandKind::unknown;
    default:
      return true;
  }
}

/// The need of `use` by the rule that matches it. @pre the rule is one of settings' or their end
Need need_by(std::vector<Rule>::const_iterator rule, const Settings& settings, const Use& use,
             const OperandFact& fact, const Choice* choice) {
  const auto by_default = [&] {
    return with_bits_for_type(default_need(settings, use, fact, choice), use);
  };
  if (rule == settings.rules.end()) return by_default();
  if (rule->from == Rule::From::advice && choice != nullptr) {
    Need planned = by_default();
    planned.advice = &*rule->codec;
    if (planned.chosen) return planned;
  }
  if (rule->keep || !rule->codec) return {Level::keep, {}, "a rule keeps it"};

  const CodecSpec& codec = *rule->codec;
  const auto traits = codecs::codec_traits(codec.name);
  if (traits && traits->fidelity != codecs::Fidelity::exact) {
    // A rule's wildcards may match operands that it does not mean: the facts still protect those.
    if (!may_lose(*rule, use, fact) || reads_of(fact, use) != Reads::values ||
        !traits->takes(use.type) || may_be_statistics(use, fact.kind)) {
      return by_default();
    }
    Need need{Level::approximate, codec, not_finite};
    need.may_be_mask = kind_of(fact, use) == OperandKind::factor;
    return rule->dtype ? need : with_bits_for_type(std::move(need), use);
  }
  // A rule can't change what backward reads; where that is a mask, a mask is the default already.
  if (traits && traits->restores != Reads::values) return by_default();
  return {Level::exact, codec, "data that the rule's codec cannot represent"};
}

}  // namespace

Need need_of(const Settings& settings, const Use& use, const OperandFact& fact,
             const Choice* choice) {
  return need_by(first_match(settings.rules, use), settings, use, fact, choice);
}

Need need_of(const Settings& settings, const Use& use, const BackwardRead& read,
             const OperandFact& fact) {
  Use as = use;
  as.op = read.op;
  as.operand = read.operand;
  // Where an operator reads no values, rules that name it are about a mask.
  const bool by_operator =
      settings.compiled_by_facts && operand_fact(read.op, read.operand).reads == Reads::values;
  const auto rule = std::ranges::find_if(settings.rules, [&](const Rule& candidate) {
    return rule_match(candidate, use) || (by_operator && rule_match(candidate, as));
  });
  return need_by(rule, settings, as, fact, nullptr);
}

}  // namespace cinch::policy
