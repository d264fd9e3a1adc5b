// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

using testing::HasSubstr;

std::string words(std::string_view text) {
  const auto result = parse_settings(text, "p.json");
  const auto* settings = std::get_if<Settings>(&result);
  return settings == nullptr ? std::get<PolicyError>(result).to_string() : explain(*settings);
}

TEST(Words, SayTheNumbersThatMatter) {
  EXPECT_THAT(words(R"({"version": 1, "policy": "actnn", "actnn": {"bits": 1.5}})"),
              HasSubstr("share an average of 1.5 bits"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "actnn", "actnn": {"level": "L1"}})"),
              HasSubstr("inputs of convolutions are held in groups of 256 elements at 4 bits"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "actnn", "actnn": {"level": "L4"}})"),
              testing::AllOf(HasSubstr("level L4"), HasSubstr("moves to the host's memory")));
  EXPECT_THAT(words(R"({"version": 1, "policy": "acgc", "acgc": {"e2": 0.25}})"),
              HasSubstr("grow by at most 25 %"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "comet"})"),
              HasSubstr("The first 1000 steps are not compressed"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "budget", "budget": {"peak_bytes": "6GiB"}})"),
              HasSubstr("at most 6144 MiB"));
  EXPECT_THAT(
      words(R"({"version": 1, "policy": "division",
                        "division": {"group": 64, "dither": "subtractive"}})"),
      testing::AllOf(HasSubstr("2 bits in groups of 64 elements, with subtractive"),
                     HasSubstr("division at 4 bits in blocks of 64 and groups of 64, dithered")));
  EXPECT_THAT(words(R"({"version": 1, "policy": "blpa"})"), HasSubstr("at 4 bits on a fixed grid"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "off"})"), HasSubstr("takes nothing."));
}

TEST(Words, NameTheRulesAndTheGuard) {
  const std::string text = words(R"({"version": 1, "policy": "division", "stream": "side",
    "guard": {"every_steps": 0}, "rules": [
      {"match": {"op": "aten::gelu", "operand": "self"}, "codec": {"name": "group_quant", "bits": 4}},
      {"match": {"op": "aten::silu"}, "codec": {"name": "group_quant", "floor": -6.5}},
      {"match": {"op": "aten::_softmax"},
       "codec": {"name": "group_quant", "bits": 3, "dither": "subtractive", "roots": true}},
      {"match": {"op": "a", "recomputed": true}, "keep": true},
      {"match": {"op": "b", "recomputed": false}, "keep": true},
      {"match": {"op": "c", "linear_output": true}, "keep": true},
      {"match": {"shape": ["*", "64"]}, "keep": true}]})");
  EXPECT_THAT(text, HasSubstr("  - a, recomputed: stays as it is\n"
                              "  - b, not recomputed: stays as it is\n"
                              "  - c, of a linear layer: stays as it is\n"));
  EXPECT_THAT(text, HasSubstr("  - aten::gelu self: group_quant at 4 bits in groups of 256\n"));
  EXPECT_THAT(text,
              HasSubstr("  - aten::silu: group_quant at 2 bits in groups of 256, from -6.5 on\n"));
  EXPECT_THAT(
      text,
      HasSubstr("_softmax: group_quant at 3 bits in groups of 256, dithered, of square roots\n"));
  EXPECT_THAT(text, HasSubstr("  - *, shape * 64: stays as it is\n"));
  EXPECT_THAT(text, HasSubstr("Nothing watches"));
  EXPECT_THAT(text, HasSubstr("on a thread of Cinch's"));
}

TEST(Words, NameWhatIsThePresets) {
  const std::string own = R"({"version": 1, "policy": "division", "rules": [
      {"match": {"op": "aten::mm"}, "keep": true}])";
  const std::string text = words(own + "}");
  EXPECT_THAT(text,
              HasSubstr("  - aten::mm: stays as it is\n"
                        "  of the preset division:\n"
                        "  - aten::_scaled_dot_product*: division at 8 bits in blocks of 64\n"));
  EXPECT_THAT(
      text,
      HasSubstr("are held by group_quant at 4 bits in groups of 256, as in the preset division;"));
  EXPECT_THAT(words(own + R"(, "preset_rules": false})"), testing::Not(HasSubstr("preset")));
  EXPECT_THAT(explain(std::get<Settings>(load_settings("division"))),
              testing::Not(HasSubstr("preset")));
}

TEST(Words, NameWhatIsAdvice) {
  const std::string text = words(R"({"version": 1, "policy": "budget", "budget": {"ratio": 9}})");
  EXPECT_THAT(text, HasSubstr("decides:\n  of the preset default, but for the bits, where a plan"));
  EXPECT_THAT(text, HasSubstr("aten::gelu self: group_quant at 3 bits in groups of 256, dithered, "
                              "from -3 on\n"));
}

TEST(Words, SayWhatLeavesTheGpu) {
  EXPECT_THAT(words(R"({"version": 1, "policy": "division"})"),
              HasSubstr("when a GPU is out of memory and encoding early was not enough"));
  EXPECT_THAT(words(R"({"version": 1, "policy": "division",
                        "offload": {"enabled": true, "host_bytes": "2GiB", "min_bytes": 100}})"),
              HasSubstr("in 100 bytes or more moves to page-locked memory, at most 2048 MiB of the "
                        "host's memory, the oldest first"));
  const std::string none =
      words(R"({"version": 1, "policy": "division", "offload": {"rescue": false},
                "rules": [{"match": {"op": "a"}, "keep": true, "offload": true}]})");
  EXPECT_THAT(none, testing::Not(HasSubstr("page-locked")));
  EXPECT_THAT(none, HasSubstr("  - a: stays as it is; from a GPU it goes to the host's memory\n"));
}

TEST(Words, EveryPresetHasSome) {
  for (const Preset& preset : presets()) EXPECT_GT(words(preset.text).size(), 10U) << preset.name;
}

}  // namespace
}  // namespace cinch::policy
