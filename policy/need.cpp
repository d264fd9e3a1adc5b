// SPDX-License-Identifier: Apache-2.0
#include "policy/need.h"

#include <algorithm>
#include <utility>

#include "policy/algorithms/algorithm.h"
#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::CodecSpec;
using codecs::ElementType;
using codecs::Reads;
using Level = Need::Level;

CodecSpec named(std::string_view codec) {
  CodecSpec spec;
  spec.name = codec;
  return spec;
}

/// An exact need. Masks are often stored as a byte or float per element, so `two_valued` is worth
/// trying: it stops at the third distinct value.
Need exactly(std::string_view reason, bool try_two_valued) {
  return {Level::exact, named(try_two_valued ? "two_valued" : ""), reason};
}

bool is_mask_type(ElementType type) noexcept {
  return type == ElementType::boolean || type == ElementType::uint8;
}

bool is_float_type(ElementType type) noexcept {
  return codecs::is_quantizable(type) || type == ElementType::float64;
}

bool is_linear(std::string_view op) noexcept {
  return op == "aten::addmm" || op == "aten::mm" || op == "aten::linear";
}

/// Statistics and log-sum-exp, which have to be exact, come out of a compiled region without a
/// name; they hold one value a row.
bool may_be_statistics(const Use& use) noexcept {
  return use.geometry.sizes.size() < 2 || use.geometry.sizes.back() == 1;
}

Need treated(const Treatment& treatment, const Use& use, std::string_view kept_because) {
  if (treatment.keep || !is_float_type(use.type)) {
    return exactly(kept_because, is_mask_type(use.type) || is_float_type(use.type));
  }
  const auto traits = codecs::codec_traits(treatment.codec.name);
  if (traits->fidelity == codecs::Fidelity::exact) {
    return {Level::exact, treatment.codec, "no smaller when held losslessly"};
  }
  if (!codecs::is_quantizable(use.type) || may_be_statistics(use)) {
    return exactly(kept_because, is_float_type(use.type));
  }
  return {Level::approximate, treatment.codec, "not finite, or too large in magnitude"};
}

constexpr std::string_view not_finite = "not finite, or too large in magnitude";

Need chosen_need(const Choice& choice) {
  switch (choice.action) {
    case Choice::Action::keep:
      return exactly("the policy keeps it for now", false);
    case Choice::Action::lossless:
      return {Level::exact, named(codecs::kLosslessFloats), "no smaller when held losslessly"};
    case Choice::Action::encode:
      break;
  }
  return {Level::approximate, choice.spec, not_finite, true};
}

Need default_need(const Settings& settings, const Use& use, const OperandFact& fact,
                  const Choice* choice) {
  switch (use.origin) {
    case Origin::compiled:
      return treated(settings.compiled, use, "saved by a compiled region");
    case Origin::function:
      return treated(settings.functions, use, "saved by a custom autograd.Function");
    case Origin::op:
      break;
  }
  if (fact.reads == Reads::nothing) return {Level::nothing, {}, {}};
  if (fact.reads == Reads::sign && codecs::is_quantizable(use.type)) {
    return {Level::sign, {}, "data that a sign mask cannot stand for"};
  }
  if (const auto bounds = interval_of(fact, use); bounds && codecs::is_quantizable(use.type)) {
    CodecSpec spec = named("interval");
    spec.lower = bounds->lower;
    spec.upper = bounds->upper;
    return {Level::interval, std::move(spec), "data that an interval mask cannot stand for"};
  }
  switch (fact.kind) {
    case OperandKind::window_index:
      if (std::ranges::find(use.index_extent, 0) == use.index_extent.end()) {
        return {Level::exact, named("window_index"), "pooling indices outside any window"};
      }
      return exactly("pooling indices into a plane of unknown extent", false);
    case OperandKind::exact:
      return exactly("has to be exact", is_mask_type(use.type));
    case OperandKind::unknown:
      return exactly("not known to tolerate approximation",
                     is_mask_type(use.type) || is_float_type(use.type));
    case OperandKind::activation:
      break;
  }
  // Under "off" the stash exists only for rescues, whose first steps change no result.
  const Algorithm& algorithm = algorithm_of(settings);
  if (algorithm.exact && is_float_type(use.type)) {
    return {Level::exact, named(codecs::kLosslessFloats), "no smaller when held losslessly"};
  }
  if (!codecs::is_quantizable(use.type))
    return exactly("element type without a codec", is_mask_type(use.type));
  if (choice != nullptr) return chosen_need(*choice);
  const bool is_classic = fact.spatial || is_linear(functional_name(use.op));
  if (is_classic && algorithm.codec != nullptr) {
    return {Level::approximate, algorithm.codec(settings), not_finite};
  }
  return exactly("no rule chooses a codec", false);
}

}  // namespace

Need need_of(const Settings& settings, const Use& use, const OperandFact& fact,
             const Choice* choice) {
  const auto rule = std::ranges::find_if(
      settings.rules, [&use](const Rule& candidate) { return rule_match(candidate, use); });
  if (rule == settings.rules.end()) return default_need(settings, use, fact, choice);
  if (rule->keep || !rule->codec) return {Level::keep, {}, "a rule keeps it"};

  const CodecSpec& codec = *rule->codec;
  const auto traits = codecs::codec_traits(codec.name);
  if (traits && traits->fidelity != codecs::Fidelity::exact) {
    // A rule's wildcards may match operands that it does not mean: the facts still protect those.
    const bool may_lose = fact.kind == OperandKind::activation || fact.kind == OperandKind::unknown;
    if (!may_lose || reads_of(fact, use) != Reads::values || !codecs::is_quantizable(use.type)) {
      return default_need(settings, use, fact, choice);
    }
    return {Level::approximate, codec, not_finite};
  }
  // A rule can't change what backward reads; where that is a mask, a mask is the default already.
  if (traits && traits->restores != Reads::values) {
    return default_need(settings, use, fact, choice);
  }
  return {Level::exact, codec, "data that the rule's codec cannot represent"};
}

}  // namespace cinch::policy
