// SPDX-License-Identifier: Apache-2.0
// cinch policy: check, explain, list and show policies.

#include <cstdio>

#include "agent/cli/commands.h"
#include "agent/cli/text.h"
#include "policy/advising/explain.h"
#include "policy/algorithms/algorithm.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

const char* offload_text(const policy::OffloadSettings& offload) {
  if (offload.enabled) return "of CUDA tensors, always";
  return offload.rescue ? "of CUDA tensors, when a device is out of memory" : "never";
}

const char* rescue_text(const policy::RescueSettings& rescue) {
  if (!rescue.enabled) return "never";
  return rescue.harder ? "when memory runs out, also in fewer bits" : "when memory runs out";
}

/// What the preset adds to a file, or "" where that is nothing.
std::string addition_text(const policy::Settings& settings) {
  using From = policy::Rule::From;
  const std::size_t rules = settings.rules_from(From::preset);
  const std::size_t advice = settings.rules_from(From::advice);
  const bool others = settings.others_from_preset;
  if (rules == 0 && !others && advice == 0) return "";
  std::string text = "; " + counted(settings.rules_from(From::file), "rule") + " of its own";
  if (rules != 0 || others) {
    text += ", then " + std::to_string(rules) + " of the preset " + settings.policy;
  }
  if (advice != 0) text += ", then " + std::to_string(advice) + " of the preset default as advice";
  if (others) text += ", and the preset's \"others\"";
  return text + " (\"preset_rules\": false drops them)";
}

void print(const policy::Settings& settings) {
  std::printf("  policy     %s\n", settings.policy.c_str());
  const policy::Algorithm& algorithm = policy::algorithm_of(settings);
  if (algorithm.idle && !settings.rescue.enabled) return;
  if (algorithm.codec != nullptr) {
    std::printf("  codec      %s\n", policy::codec_in_words(algorithm.codec(settings)).c_str());
  }
  std::printf("  min_bytes  %zu\n", settings.min_bytes);
  const auto whose = [](bool ours) { return ours ? "Cinch's" : "PyTorch's own"; };
  std::printf("  allocator  host: %s, CUDA: %s\n", whose(settings.allocator_host),
              whose(settings.allocator_cuda));
  std::printf("  offload    %s\n", offload_text(settings.offload));
  std::printf("  rescue     %s\n", rescue_text(settings.rescue));
  std::printf("  seed       %u\n", settings.seed);
  if (settings.rules.empty()) return;
  std::printf("  rules, the first match decides:\n%s", policy::rules_in_words(settings).c_str());
}

}  // namespace

int check_policy(const std::string& file) {
  const auto loaded = policy::load_settings(file);
  if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) {
    say(error->to_string());
    return usage_error;
  }
  const auto& settings = std::get<policy::Settings>(loaded);
  std::printf("%s: OK%s\n", printable(file).c_str(), addition_text(settings).c_str());
  print(settings);
  return 0;
}

int explain_policy(const std::string& file) {
  const auto loaded = policy::load_settings(file);
  if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) {
    say(error->to_string());
    return usage_error;
  }
  const std::string words = policy::explain(std::get<policy::Settings>(loaded));
  std::fputs(printable_lines(words).c_str(), stdout);
  return 0;
}

int list_policies() {
  Table table({"name", "what it does"});
  for (const policy::Preset& preset : policy::presets()) {
    table.add({std::string(preset.name), std::string(preset.summary)});
  }
  std::fputs(table.render("").c_str(), stdout);
  return 0;
}

int show_policy(const std::string& name) {
  for (const policy::Preset& preset : policy::presets()) {
    if (preset.name != name) continue;
    std::fwrite(preset.text.data(), 1, preset.text.size(), stdout);
    return 0;
  }
  const auto loaded = policy::load_settings(name);
  const auto* error = std::get_if<policy::PolicyError>(&loaded);
  say(error != nullptr ? error->to_string() : name + ": found a file, expected a preset's name");
  return usage_error;
}

}  // namespace cinch::cli
