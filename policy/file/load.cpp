// SPDX-License-Identifier: Apache-2.0
// Parses a policy's text into Settings, or into one error for the user.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <tuple>
#include <utility>

#include "policy/algorithms/algorithm.h"
#include "policy/bytes.h"
#include "policy/file/json_source.h"
#include "policy/file/schema_check.h"
#include "policy/file/suggest.h"
#include "policy/policy.h"

namespace cinch::policy {
namespace {

using Json = nlohmann::json;
using codecs::CodecSpec;

CodecSpec read_codec(const Json& json, const CodecSpec& defaults) {
  CodecSpec spec = defaults;
  spec.name = json.value("name", spec.name);
  const auto traits = codecs::codec_traits(spec.name);
  const bool has_residuals = traits && traits->keeps_means;
  // How residuals are held is no default for codecs that have none.
  if (!has_residuals) spec.residual_group = 0;
  if (spec.name != defaults.name) spec.subtractive_dither = false;
  spec.bits = json.value("bits", spec.bits);
  spec.block = json.value("block", spec.block);
  if (json.contains("edge")) spec.edge_ceil = json.at("edge") == "ceil";
  int& group = has_residuals ? spec.residual_group : spec.group;
  group = json.value("group", group);
  if (json.contains("dither")) spec.subtractive_dither = json.at("dither") == "subtractive";
  spec.floor = json.value("floor", spec.floor);
  spec.roots = json.value("roots", spec.roots);
  spec.error_bound = json.value("error_bound", spec.error_bound);
  spec.zero_value = json.value("zero_value", spec.zero_value);
  spec.refresh = json.value("refresh", spec.refresh);
  spec.lower = json.value("lower", spec.lower);
  spec.upper = json.value("upper", spec.upper);
  spec.closed = json.value("closed", spec.closed);
  return spec;
}

Rule read_rule(const Json& json, const CodecSpec& defaults) {
  Rule rule;
  const Json& match = json.at("match");
  rule.op = match.value("op", rule.op);
  rule.operand = match.value("operand", rule.operand);
  if (match.contains("dtype")) rule.dtype = dtype_named(match.at("dtype").get<std::string>());
  if (match.contains("shape")) rule.shape = match.at("shape").get<std::vector<std::string>>();
  if (match.contains("recomputed")) rule.recomputed = match.at("recomputed").get<bool>();
  if (match.contains("linear_output")) rule.linear_output = match.at("linear_output").get<bool>();
  rule.keep = json.contains("keep");
  if (json.contains("offload")) rule.offload = json.at("offload").get<bool>();
  if (!rule.keep) rule.codec = read_codec(json.at("codec"), defaults);
  return rule;
}

Treatment read_treatment(const Json& json, const CodecSpec& defaults) {
  Treatment treatment;
  treatment.keep = json.contains("keep");
  if (!treatment.keep) treatment.codec = read_codec(json.at("codec"), defaults);
  return treatment;
}

/// How float tensors of which only the origin is known are held unless the file says otherwise.
void set_default_treatments(Settings& settings) {
  settings.functions.codec.name = codecs::kLosslessFloats;
  settings.compiled.codec.name = codecs::kLosslessFloats;
  if (algorithm_of(settings).exact) return;
  settings.compiled.codec.name = "group_quant";
  settings.compiled.codec.bits = 8;
}

GuardSettings read_guard(const Json& json) {
  GuardSettings guard;
  guard.every_steps = json.value("every_steps", guard.every_steps);
  guard.max_relative_error = json.value("max_relative_error", guard.max_relative_error);
  guard.max_gradient_error = json.value("max_gradient_error", guard.max_gradient_error);
  return guard;
}

OffloadSettings read_offload(const Json& json) {
  OffloadSettings offload;
  offload.enabled = json.value("enabled", offload.enabled);
  offload.rescue = json.value("rescue", offload.rescue);
  if (json.contains("host_bytes")) {
    offload.host_bytes = bytes_of(json.at("host_bytes").get<std::string>()).value_or(0);
  }
  offload.min_bytes = json.value("min_bytes", offload.min_bytes);
  return offload;
}

/// Settings::raw_window where the file does not say. What waits raw must pay for its bytes: by what
/// is then not decoded or copied ahead, or by encoding nothing at all before memory runs out.
double usual_window(const Settings& settings) {
  constexpr double all = 1000;
  if (algorithm_of(settings).idle) return all;
  return settings.stream == Stream::side || settings.offload.enabled ? 0.125 : 0;
}

RescueSettings read_rescue(const Json& json, bool by_default) {
  return {json.value("enabled", by_default), json.value("harder", true)};
}

DeriveSettings read_derive(const Json& json, const Algorithm& algorithm) {
  DeriveSettings derive = {.enabled = json.value("enabled", algorithm.derives)};
  derive.attention = json.value("attention", derive.attention);
  derive.depth = json.value("depth", derive.depth);
  derive.signs_in_sources = json.value("signs_in_sources", algorithm.signs_in_sources);
  return derive;
}

bool match_the_same(const Rule& a, const Rule& b) {
  return std::tie(a.op, a.operand, a.dtype, a.shape, a.recomputed, a.linear_output) ==
         std::tie(b.op, b.operand, b.dtype, b.shape, b.recomputed, b.linear_output);
}

Json preset_named(std::string_view name) {
  const std::span<const Preset> all = presets();
  const auto preset = std::ranges::find(all, name, &Preset::name);
  return preset == all.end() ? Json::object() : Json::parse(preset->text);
}

/// Adds the rules of a preset behind those of the file. One that matches the same as an earlier
/// rule would never decide and is left out, so a copy of a preset takes over nothing.
void add_rules(const Json& preset, Settings& settings, Rule::From from) {
  for (const Json& member : preset.value("rules", Json::array())) {
    Rule rule = read_rule(member, settings.division);
    rule.from = from;
    const auto same = [&rule](const Rule& earlier) { return match_the_same(earlier, rule); };
    if (std::ranges::any_of(settings.rules, same)) continue;
    settings.rules.push_back(std::move(rule));
  }
}

/// Takes over what the preset of the algorithm's name says and the file `json` does not, and the
/// rules of "default" as advice where the algorithm wants that.
void take_over_preset(const Json& json, Settings& settings) {
  if (!json.value("preset_rules", true)) return;
  const Json theirs = preset_named(settings.policy);
  add_rules(theirs, settings, Rule::From::preset);
  if (algorithm_of(settings).takes_advice) {
    add_rules(preset_named("default"), settings, Rule::From::advice);
  }
  if (!json.contains("others") && theirs.contains("others")) {
    settings.others = read_treatment(theirs.at("others"), settings.division);
    settings.others_from_preset = true;
  }
}

Settings read_settings(const Json& json, std::string_view file) {
  Settings settings;
  settings.name = file;
  settings.policy = json.at("policy");
  settings.min_bytes = json.value("min_bytes", settings.min_bytes);
  settings.seed = json.value("seed", settings.seed);
  const Algorithm& algorithm = algorithm_of(settings);
  const bool is_off = algorithm.idle;
  settings.rescue = read_rescue(json.value("rescue", Json::object()), !is_off);
  // Under "off" PyTorch's own allocators stay, unless the file asks for Cinch's by name or by
  // "enabled": true, or wants a rescue, for which PyTorch's allocators never ask.
  const Json allocator = json.value("allocator", Json::object());
  const bool enabled = allocator.value("enabled", true);
  const bool wanted = settings.rescue.enabled || !is_off || allocator.contains("enabled");
  settings.allocator_host = enabled && allocator.value("host", wanted);
  settings.allocator_cuda = enabled && allocator.value("cuda", wanted);
  settings.ask_others_seconds = allocator.value("ask_others_seconds", settings.ask_others_seconds);
  settings.telemetry = json.value("telemetry", true);
  if (json.value("stream", "current") == "side") settings.stream = Stream::side;
  if (json.contains("in_flight_bytes")) {
    settings.in_flight_bytes = bytes_of(json.at("in_flight_bytes").get<std::string>()).value_or(0);
  }
  settings.offload = read_offload(json.value("offload", Json::object()));
  settings.raw_window = json.value("raw_window", usual_window(settings));
  settings.derive = read_derive(json.value("derive", Json::object()), algorithm);
  if (json.contains("guard")) settings.guard = read_guard(json.at("guard"));
  settings.groups = {.name = "group_quant", .bits = 3, .subtractive_dither = true};
  if (json.contains("groups")) settings.groups = read_codec(json.at("groups"), settings.groups);
  settings.division.name = "division";
  if (json.contains("division")) {
    settings.division = read_codec(json.at("division"), settings.division);
  }
  if (algorithm.read != nullptr) algorithm.read(json, settings);
  settings.state_file = json.value("state_file", settings.state_file);
  set_default_treatments(settings);
  if (json.contains("compiled")) {
    settings.compiled = read_treatment(json.at("compiled"), settings.division);
    settings.compiled_by_facts = false;
  }
  if (json.contains("functions")) {
    settings.functions = read_treatment(json.at("functions"), settings.division);
  }
  if (json.contains("others")) {
    settings.others = read_treatment(json.at("others"), settings.division);
  }
  if (json.contains("rules")) {
    for (const Json& rule : json.at("rules")) {
      settings.rules.push_back(read_rule(rule, settings.division));
    }
  }
  take_over_preset(json, settings);
  return settings;
}

/// What is wrong with the dither of a codec that keeps means, or "".
std::string dither_fault(const CodecSpec& codec) {
  const auto traits = codecs::codec_traits(codec.name);
  const bool in_groups = !traits || !traits->keeps_means || codec.residual_group > 0;
  if (in_groups || !codec.subtractive_dither) return {};
  return "found \"subtractive\" for \"" + codec.name +
         "\" without a \"group\", expected one beside it, such as 256, or \"nonsubtractive\"";
}

/// What is wrong with "roots", or "".
std::string roots_fault(const CodecSpec& codec) {
  if (!codec.roots) return {};
  if (codec.name != "group_quant") {
    return "found \"roots\" for \"" + codec.name + "\", expected it for \"group_quant\" only";
  }
  if (!codec.subtractive_dither) {
    return "found \"roots\" with stochastic rounding, expected \"dither\": \"subtractive\" beside "
           "it";
  }
  if (codec.floor != codecs::kNoFloor) {
    return "found \"roots\" beside a \"floor\", expected one of them";
  }
  return {};
}

PolicyError to_policy_error(const JsonError& error, std::string_view file) {
  return {std::string(file), error.where.line, error.where.column, field_path(error.pointer),
          error.message};
}

/// What is wrong with a codec's parameters that the schema can't express, or "".
std::string codec_fault(const Settings& settings, const CodecSpec& codec) {
  const auto traits = codecs::codec_traits(codec.name);
  const bool exact = !traits || traits->fidelity == codecs::Fidelity::exact;
  if (keeps_all_exact(settings) && !exact) {
    return "found the approximating codec \"" + codec.name + "\" under policy \"" +
           settings.policy + "\", expected an exact one, such as \"raw\"";
  }
  if (traits && traits->precision == codecs::Precision::error_bound && codec.error_bound == 0.0F) {
    return "found no \"error_bound\" beside \"" + codec.name + "\", expected a number above 0";
  }
  if (std::string fault = dither_fault(codec); !fault.empty()) return fault;
  if (std::string fault = roots_fault(codec); !fault.empty()) return fault;
  if (codecs::make_codec(codec) == nullptr) {
    return "found parameters that \"" + codec.name +
           "\" can't be made with, expected them as the schema's descriptions say";
  }
  return {};
}

std::optional<Fault> parameter_fault(const Settings& settings, const JsonSource& source) {
  const Algorithm& algorithm = algorithm_of(settings);
  if (algorithm.fault != nullptr) {
    if (auto fault = algorithm.fault(source.document, settings)) return fault;
  }
  if (std::string fault = dither_fault(settings.division); !fault.empty()) {
    return Fault{"/division/dither", std::move(fault)};
  }
  if (settings.offload.host_bytes == 0 && source.locations.contains("/offload/host_bytes")) {
    return Fault{"/offload/host_bytes", no_size};
  }
  if (settings.in_flight_bytes == 0) return Fault{"/in_flight_bytes", no_size};
  if (!settings.state_file.empty() && algorithm.director == nullptr) {
    return Fault{"/state_file", "found a file for what policy \"" + settings.policy +
                                    "\" learns, which learns nothing; expected it under "
                                    "\"actnn\", \"acgc\", \"comet\" or \"budget\""};
  }
  return std::nullopt;
}

std::optional<JsonError> check_meaning(const Settings& settings, const JsonSource& source,
                                       std::string_view text) {
  if (auto fault = parameter_fault(settings, source)) {
    auto& [pointer, message] = *fault;
    return JsonError{position_at(text, source.locations.at(pointer).value), pointer,
                     std::move(message)};
  }
  std::vector<std::pair<std::string, const CodecSpec*>> chosen;  // where, and what
  const std::size_t own_rules = settings.rules_from(Rule::From::file);
  for (std::size_t i = 0; i < own_rules; ++i) {
    const auto& codec = settings.rules[i].codec;
    if (codec) chosen.emplace_back("/rules/" + std::to_string(i) + "/codec/name", &*codec);
  }
  for (const auto& [field, treatment] : {std::pair{"/compiled", &settings.compiled},
                                         {"/functions", &settings.functions},
                                         {"/others", &settings.others}}) {
    const std::string pointer = std::string(field) + "/codec/name";
    if (source.locations.contains(pointer)) chosen.emplace_back(pointer, &treatment->codec);
  }
  for (const auto& [pointer, codec] : chosen) {
    std::string fault = codec_fault(settings, *codec);
    if (fault.empty()) continue;
    return JsonError{position_at(text, source.locations.at(pointer).value), pointer,
                     std::move(fault)};
  }
  return std::nullopt;
}

std::variant<std::string, PolicyError> read_file(const std::string& path) {
  constexpr std::size_t largest = 1 << 20;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  std::string text;
  char buffer[8192];
  std::size_t count = 0;
  while (file && text.size() <= largest &&
         (count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    text.append(buffer, count);
  }
  if (!file || std::ferror(file.get()) != 0) {
    return PolicyError{path, 0, 0, "", std::string("cannot read the policy: ") + strerror(errno)};
  }
  if (text.size() > largest) {
    return PolicyError{path, 0, 0, "", "found more than 1 MiB, expected a policy file"};
  }
  return text;
}

std::variant<std::string, PolicyError> preset_text(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return std::string(preset.text);
    names.emplace_back(preset.name);
  }
  return PolicyError{std::string(name), 0, 0, "",
                     "found no preset of this name, expected one of " + quoted_list(names) +
                         " or a path (with a '/' or ending in \".json\")" +
                         did_you_mean(name, names)};
}

}  // namespace

std::size_t Settings::rules_from(Rule::From from) const noexcept {
  return static_cast<std::size_t>(std::ranges::count(rules, from, &Rule::from));
}

std::string PolicyError::to_string() const {
  std::string text = file;
  if (line > 0) text += ':' + std::to_string(line) + ':' + std::to_string(column);
  text += ": ";
  if (!field.empty()) text += field + ": ";
  return text + message;
}

std::variant<Settings, PolicyError> parse_settings(std::string_view text, std::string_view file) {
  try {
    const auto parsed = parse_json(text);
    if (const auto* error = std::get_if<JsonError>(&parsed)) return to_policy_error(*error, file);
    const auto& source = std::get<JsonSource>(parsed);
    if (const auto error = check_schema(source, text)) return to_policy_error(*error, file);
    Settings settings = read_settings(source.document, file);
    if (const auto error = check_meaning(settings, source, text)) {
      return to_policy_error(*error, file);
    }
    return settings;
  } catch (const std::exception& error) {
    return PolicyError{std::string(file), 0, 0, "", std::string("internal error: ") + error.what()};
  }
}

std::variant<std::string, PolicyError> policy_text(std::string_view preset_or_path) {
  try {
    const bool is_path =
        preset_or_path.find('/') != preset_or_path.npos || preset_or_path.ends_with(".json");
    return is_path ? read_file(std::string(preset_or_path)) : preset_text(preset_or_path);
  } catch (const std::exception& error) {
    return PolicyError{std::string(preset_or_path), 0, 0, "",
                       std::string("internal error: ") + error.what()};
  }
}

std::variant<Settings, PolicyError> load_settings(std::string_view preset_or_path) {
  const auto text = policy_text(preset_or_path);
  if (const auto* error = std::get_if<PolicyError>(&text)) return *error;
  return parse_settings(std::get<std::string>(text), preset_or_path);
}

}  // namespace cinch::policy
