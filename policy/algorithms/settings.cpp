// SPDX-License-Identifier: Apache-2.0
// What each algorithm reads from a policy file, and what it refuses that the schema accepts.
#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "policy/algorithms/lines.h"
#include "policy/bytes.h"

namespace cinch::policy {
namespace {

using Json = nlohmann::json;

constexpr std::pair<std::string_view, AcgcSettings::Codec> acgc_codecs[] = {
    {"AutoQuant", AcgcSettings::Codec::quant},
    {"AutoQuantZ", AcgcSettings::Codec::quant_z},
    {"AutoCuSZ", AcgcSettings::Codec::cusz},
    {"AutoJPEG", AcgcSettings::Codec::jpeg},
    {"AutoJPEGZ", AcgcSettings::Codec::jpeg_z}};

Json field_of(const Json& file, const char* name) {
  return file.value(name, Json::object());
}

}  // namespace

void read_blpa(const Json& file, Settings& settings) {
  settings.blpa_bits = field_of(file, "blpa").value("bits", settings.blpa_bits);
}

void read_actnn(const Json& file, Settings& settings) {
  const Json json = field_of(file, "actnn");
  ActnnSettings& actnn = settings.actnn;
  actnn.level = json.value("level", std::string("L3"))[1] - '0';
  actnn.fixed_bits = json.value("fixed_bits", actnn.fixed_bits);
  actnn.bits = json.value("bits", actnn.bits);
  actnn.group = json.value("group", actnn.group);
  actnn.every_steps = json.value("every_steps", actnn.every_steps);
  const bool swaps = actnn.level >= 4;
  if (swaps && !field_of(file, "offload").contains("enabled")) settings.offload.enabled = true;
}

std::optional<Fault> actnn_fault(const Json& /*file*/, const Settings& settings) {
  const std::string level = "found level L" + std::to_string(settings.actnn.level);
  if (settings.actnn.level >= 4 && !settings.offload.enabled) {
    return Fault{"/actnn/level",
                 level +
                     ", which swaps compressed activations out of a GPU's memory, "
                     "beside an \"offload\" that is not enabled; expected L0 to L3, "
                     "or \"enabled\": true"};
  }
  if (settings.actnn.level >= 5 && !settings.allocator_cuda) {
    return Fault{"/actnn/level", level +
                                     ", whose defragmentation is Cinch's allocator's, beside an "
                                     "\"allocator\" that leaves CUDA to PyTorch's; expected L0 to "
                                     "L4, or \"cuda\": true"};
  }
  return std::nullopt;
}

void read_acgc(const Json& file, Settings& settings) {
  const Json json = field_of(file, "acgc");
  AcgcSettings& acgc = settings.acgc;
  acgc.e2 = json.value("e2", acgc.e2);
  acgc.every_steps = json.value("every_steps", acgc.every_steps);
  acgc.window = json.value("window", acgc.window);
  const std::string codec = json.value("codec", std::string("AutoQuantZ"));
  for (const auto& [name, value] : acgc_codecs) {
    if (codec == name) acgc.codec = value;
  }
  acgc.expected = json.value("mode", std::string("guaranteed")) == "expected";
}

std::optional<Fault> acgc_fault(const Json& /*file*/, const Settings& settings) {
  const bool unbiased = settings.acgc.codec == AcgcSettings::Codec::quant ||
                        settings.acgc.codec == AcgcSettings::Codec::quant_z;
  if (!settings.acgc.expected || unbiased) return std::nullopt;
  return Fault{
      "/acgc/mode",
      "found \"expected\", bounds that hold for rounding without bias, beside a codec that "
      "rounds to nearest; expected \"guaranteed\", or codec \"AutoQuant\" or "
      "\"AutoQuantZ\""};
}

void read_comet(const Json& file, Settings& settings) {
  const Json json = field_of(file, "comet");
  CometSettings& comet = settings.comet;
  comet.fraction = json.value("fraction", comet.fraction);
  comet.a = json.value("a", comet.a);
  comet.paper_mode = json.value("mode", std::string("exact")) == "paper";
  comet.every_steps = json.value("every_steps", comet.every_steps);
  comet.momentum_steps = json.value("momentum_steps", comet.momentum_steps);
  comet.evacuate_below = json.value("evacuate_below", comet.evacuate_below);
}

void read_budget(const Json& file, Settings& settings) {
  const Json json = field_of(file, "budget");
  BudgetSettings& budget = settings.budget;
  if (json.contains("peak_bytes")) {
    budget.peak_bytes = bytes_of(json.at("peak_bytes").get<std::string>()).value_or(0);
  }
  budget.ratio = json.value("ratio", budget.ratio);
  budget.variance_per_second = json.value("variance_per_second", budget.variance_per_second);
  budget.offload = json.value("offload", budget.offload);
  budget.every_steps = json.value("every_steps", budget.every_steps);
}

std::optional<Fault> budget_fault(const Json& file, const Settings& settings) {
  if (settings.budget.peak_bytes != 0 || settings.budget.ratio != 0) return std::nullopt;
  if (field_of(file, "budget").contains("peak_bytes")) return Fault{"/budget/peak_bytes", no_size};
  return Fault{"/policy",
               "found \"budget\" without its target, expected a field \"budget\" with "
               "\"peak_bytes\" or \"ratio\" in it"};
}

}  // namespace cinch::policy
