// SPDX-License-Identifier: Apache-2.0
// Policy files that nobody wrote in good faith: an error with its place, never a crash.
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/advising/explain.h"
#include "policy/policy.h"

namespace cinch::policy {
namespace {

using namespace std::string_literals;

std::string refused(const std::string& text) {
  const auto result = parse_settings(text, "p.json");
  const auto* error = std::get_if<PolicyError>(&result);
  return error == nullptr ? "accepted" : error->to_string();
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(HostilePolicy, Depth) {
  constexpr int deep = 100000;
  EXPECT_THAT(refused(repeated("[", deep)), testing::StartsWith("p.json:1:"));
  EXPECT_THAT(refused(repeated("[", deep) + repeated("]", deep)),
              testing::HasSubstr("p.json:1:65: "));
  EXPECT_THAT(refused(R"({"version": 1, "policy": )" + repeated(R"({"a":)", 5000) + "1" +
                      repeated("}", 5001)),
              testing::StartsWith("p.json:1:"));
}

TEST(HostilePolicy, NumbersOutOfRange) {
  for (const char* number : {"1e999", "-1e999", "123456789012345678901234567890", "-0.0000001",
                             "1e308", "NaN", "Infinity", "0x10", "01"}) {
    for (const char* field : {"min_bytes", "seed", "raw_window", "actnn", "budget"}) {
      const std::string text =
          std::string(R"({"version": 1, "policy": "division", ")") + field + "\": " + number + "}";
      EXPECT_THAT(refused(text), testing::StartsWith("p.json:1:")) << text;
    }
  }
}

TEST(HostilePolicy, InvalidUtf8AndControlCharacters) {
  for (const std::string bytes : {"\xff", "\xc3\x28", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_THAT(refused(R"({"version": 1, "policy": ")" + bytes + "\"}"),
                testing::StartsWith("p.json:1:"));
  }
  EXPECT_THAT(refused("{\"version\": 1, \"policy\": \"off\0\"}"s),
              testing::StartsWith("p.json:1:"));
}

TEST(HostilePolicy, DuplicateKeysAnywhere) {
  EXPECT_THAT(
      refused(R"({"version": 1, "policy": "budget", "budget": {"ratio": 2, "ratio": 3}})"),
      testing::HasSubstr("p.json:1:59: budget.ratio: found the key \"ratio\" a second time"));
}

TEST(HostilePolicy, Length) {
  const std::string rule = R"({"match": {"op": "a*"}, "keep": true},)";
  const std::string many = R"({"version": 1, "policy": "off", "rules": [)" + repeated(rule, 5000) +
                           R"({"match": {"op": 1}, "keep": true}]})";
  EXPECT_THAT(refused(many), testing::HasSubstr("rules[5000].match.op: found 1"));
  EXPECT_THAT(refused(R"({"version": 1, "policy": ")" + std::string(900000, 'x') + "\"}"),
              testing::StartsWith("p.json:1:26: policy: found"));
}

/// Presets with bytes changed, cut, doubled and exchanged: accepted or refused with a place, and
/// what is accepted can be said in words.
TEST(HostilePolicy, MutationsOfPresets) {
  std::mt19937 random(1);
  const std::string interesting = "{}[]\",:0123456789.eE+-\\tfn \n\xff\0"s;
  for (const Preset& preset : presets()) {
    for (int round = 0; round < 120; ++round) {
      std::string text(preset.text);
      for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
        if (text.empty()) break;
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = interesting[random() % interesting.size()];
            break;
          case 1:
            text.erase(at, 1 + random() % 8);
            break;
          case 2:
            text.insert(at, text.substr(random() % text.size(), random() % 40));
            break;
          default:
            text.resize(at + 1);
        }
      }
      const auto result = parse_settings(text, "p.json");
      if (const auto* error = std::get_if<PolicyError>(&result)) {
        ASSERT_GT(error->line, 0) << error->to_string() << "\n" << text;
      } else {
        ASSERT_FALSE(explain(std::get<Settings>(result)).empty());
      }
    }
  }
}

}  // namespace
}  // namespace cinch::policy
