// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policy/file/embedded.h"
#include "tests/policy/file/parsed.h"

namespace cinch::policy {
namespace {

TEST(Presets, AllAreValidAndDescribed) {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    EXPECT_FALSE(preset.summary.empty());
    const auto result = load_settings(preset.name);
    if (const auto* error = std::get_if<PolicyError>(&result)) ADD_FAILURE() << error->to_string();
    EXPECT_EQ(std::get<Settings>(result).name, preset.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("acgc", "actnn", "blpa", "budget", "comet", "default",
                                          "division", "lossless", "off"));
}

TEST(Presets, TheDefaultIsWhatAFileThatNamesItSays) {
  const Settings file = accepted(R"({"version": 1, "policy": "default"})");
  const Settings preset = std::get<Settings>(load_settings("default"));
  EXPECT_EQ(file.groups, preset.groups);
  EXPECT_EQ(file.others.codec, preset.others.codec);
  EXPECT_TRUE(file.derive.enabled && preset.derive.enabled);
  ASSERT_EQ(file.rules.size(), preset.rules.size());
  for (std::size_t i = 0; i < file.rules.size(); ++i) {
    EXPECT_EQ(file.rules[i].op, preset.rules[i].op);
    EXPECT_EQ(file.rules[i].codec, preset.rules[i].codec);
  }
}

TEST(Presets, AreTheFilesInConfigs) {
  for (const Preset& preset : presets()) {
    std::ifstream file(std::string(CINCH_CONFIGS_DIR "/") + std::string(preset.name) + ".json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(preset.text, text) << preset.name;
  }
}

TEST(PresetRules, FollowTheFilesOwn) {
  const Settings preset = std::get<Settings>(load_settings("division"));
  const Settings s = accepted(R"({"version": 1, "policy": "division",
    "rules": [{"match": {"op": "aten::m*"}, "keep": true}]})");
  ASSERT_EQ(s.rules.size(), preset.rules.size() + 1);
  EXPECT_EQ(s.rules.front().op, "aten::m*");
  EXPECT_EQ(s.rules[1].op, preset.rules.front().op);
  EXPECT_EQ(s.rules_from(Rule::From::preset), preset.rules.size());
  EXPECT_FALSE(s.others.keep);
  EXPECT_EQ(s.others.codec.name, "group_quant");
  EXPECT_EQ(s.others.codec.bits, 4);
  EXPECT_TRUE(s.others_from_preset);
}

TEST(PresetRules, AreThoseOfTheAlgorithmThatTheFileNames) {
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "comet"})").rules.size(), 1U);
  EXPECT_TRUE(accepted(R"({"version": 1, "policy": "blpa"})").rules.empty());
}

TEST(PresetRules, CanBeDropped) {
  const Settings s = accepted(R"({"version": 1, "policy": "division", "preset_rules": false,
    "rules": [{"match": {"op": "x"}, "keep": true}]})");
  EXPECT_EQ(s.rules.size(), 1U);
  EXPECT_TRUE(s.others.keep);
  EXPECT_EQ(s.rules_from(Rule::From::preset), 0U);
  EXPECT_FALSE(s.others_from_preset);
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "preset_rules": 0})"),
              testing::HasSubstr("preset_rules: found 0, expected a boolean"));
}

TEST(PresetRules, AreLeftOutWhereTheFileMatchesTheSame) {
  const Settings preset = std::get<Settings>(load_settings("division"));
  const Settings s = accepted(R"({"version": 1, "policy": "division",
    "rules": [{"match": {"op": "aten::gelu", "operand": "self"}, "keep": true},
              {"match": {"op": "aten::silu"}, "keep": true}]})");
  EXPECT_EQ(s.rules_from(Rule::From::preset), preset.rules.size() - 1)
      << "SiLU's rules differ in the operand";
}

TEST(PresetRules, TheFilesOthersStay) {
  const Settings s = accepted(R"({"version": 1, "policy": "division", "others": {"keep": true}})");
  EXPECT_TRUE(s.others.keep);
  EXPECT_FALSE(s.others_from_preset);
  EXPECT_GT(s.rules_from(Rule::From::preset), 0U);
}

TEST(PresetRules, TakeTheFilesDivisionParameters) {
  const Settings s =
      accepted(R"({"version": 1, "policy": "division", "division": {"bits": 3, "edge": "paper"}})");
  ASSERT_FALSE(s.rules.empty());
  EXPECT_EQ(s.rules.front().codec->bits, 8) << "the preset's rule says so";
  EXPECT_FALSE(s.rules.front().codec->edge_ceil);
}

TEST(PresetRules, OfTheDefaultAreAdviceUnderBudget) {
  const Settings preset = std::get<Settings>(load_settings("default"));
  const Settings s = accepted(R"({"version": 1, "policy": "budget", "budget": {"ratio": 8},
    "rules": [{"match": {"op": "aten::gelu", "operand": "self"}, "keep": true}]})");
  EXPECT_EQ(s.rules_from(Rule::From::advice), preset.rules.size() - 1)
      << "the file's rule stands for one";
  EXPECT_EQ(s.rules.size(), preset.rules.size());
  EXPECT_EQ(s.rules.front().from, Rule::From::file);
  EXPECT_EQ(s.rules.back().from, Rule::From::advice);
  const Settings bare = accepted(R"({"version": 1, "policy": "budget", "budget": {"ratio": 8},
    "preset_rules": false})");
  EXPECT_TRUE(bare.rules.empty());
}

TEST(PresetRules, ACopyOfAPresetIsThePreset) {
  for (const Preset& preset : presets()) {
    const Settings s = accepted(preset.text);
    const auto document = nlohmann::json::parse(preset.text);
    EXPECT_EQ(s.rules.size() - s.rules_from(Rule::From::advice),
              document.value("rules", nlohmann::json::array()).size());
    EXPECT_EQ(s.rules_from(Rule::From::preset), 0U) << preset.name;
    EXPECT_FALSE(s.others_from_preset) << preset.name;
  }
}

}  // namespace
}  // namespace cinch::policy
