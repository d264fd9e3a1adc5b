// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/file/parsed.h"

namespace cinch::policy {
namespace {

TEST(Load, DivisionsResidualsInGroups) {
  const Settings s = accepted(R"({"version": 1, "policy": "division",
    "division": {"bits": 2, "group": 256, "dither": "subtractive"}, "rules": [
      {"match": {"op": "aten::mm"}, "codec": {"name": "division", "group": 64}},
      {"match": {"op": "aten::bmm"}, "codec": {"name": "division", "dither": "nonsubtractive"}},
      {"match": {"op": "aten::gelu"}, "codec": {"name": "group_quant"}}]})");
  EXPECT_EQ(s.division.residual_group, 256);
  EXPECT_TRUE(s.division.subtractive_dither);
  EXPECT_EQ(s.rules[0].codec->residual_group, 64);
  EXPECT_TRUE(s.rules[0].codec->subtractive_dither);
  EXPECT_EQ(s.rules[1].codec->residual_group, 256);
  EXPECT_FALSE(s.rules[1].codec->subtractive_dither);
  EXPECT_EQ(s.rules[2].codec->group, 256);
  EXPECT_FALSE(s.rules[2].codec->subtractive_dither) << "DIVISION's dither is no default for it";
  EXPECT_EQ(s.rules[3].codec->residual_group, 256) << "the preset's";
  const Settings paper = accepted(R"({"version": 1, "policy": "division"})");
  EXPECT_EQ(paper.division.residual_group, 0);
}

TEST(Load, DivisionIsDitheredInGroupsOnly) {
  EXPECT_EQ(refused(R"({"version": 1, "policy": "division", "division": {
  "dither": "subtractive"}})"),
            "p.json:2:13: division.dither: found \"subtractive\" for \"division\" without a "
            "\"group\", expected one beside it, such as 256, or \"nonsubtractive\"");
  EXPECT_THAT(refused(R"({"version": 1, "policy": "default", "rules": [{"match": {"op": "aten::mm"},
    "codec": {"name": "division", "dither": "subtractive"}}]})"),
              testing::HasSubstr("rules[0].codec.name: found \"subtractive\" for \"division\""));
  accepted(R"({"version": 1, "policy": "default", "rules": [{"match": {"op": "aten::mm"},
    "codec": {"name": "division", "dither": "nonsubtractive"}}]})");
}

TEST(Load, RootsAreOfDitheredGroups) {
  const auto rule = [](const std::string& codec) {
    return R"({"version": 1, "policy": "default", "rules": [
  {"match": {"op": "aten::_softmax"}, "codec": )" +
           codec + "}]}";
  };
  const Settings s =
      accepted(rule(R"({"name": "group_quant", "dither": "subtractive", "roots": true})"));
  EXPECT_TRUE(s.rules.at(0).codec->roots);
  const std::string where = "p.json:2:57: rules[0].codec.name: ";
  EXPECT_EQ(refused(rule(R"({"name": "blpa", "roots": true})")),
            where + "found \"roots\" for \"blpa\", expected it for \"group_quant\" only");
  EXPECT_EQ(refused(rule(R"({"name": "group_quant", "roots": true})")),
            where +
                "found \"roots\" with stochastic rounding, expected \"dither\": "
                "\"subtractive\" beside it");
  EXPECT_EQ(refused(rule(R"({"name": "group_quant", "dither": "subtractive", "roots": true,
                             "floor": 0})")),
            where + "found \"roots\" beside a \"floor\", expected one of them");
}

}  // namespace
}  // namespace cinch::policy
