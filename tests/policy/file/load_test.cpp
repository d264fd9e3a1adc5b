// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policy/algorithms/algorithm.h"
#include "policy/file/embedded.h"
#include "tests/policy/file/parsed.h"

namespace cinch::policy {
namespace {

TEST(Load, DefaultsOfEveryField) {
  const Settings s = accepted(R"({"version": 1, "policy": "division", "preset_rules": false})");
  EXPECT_EQ(s.name, "p.json");
  EXPECT_EQ(s.policy, "division");
  EXPECT_EQ(s.min_bytes, 4096U);
  EXPECT_TRUE(s.allocator_host);
  EXPECT_EQ(s.seed, 0U);
  EXPECT_EQ(s.division.name, "division");
  EXPECT_EQ(s.division.bits, 2);
  EXPECT_EQ(s.division.block, 8);
  EXPECT_TRUE(s.division.edge_ceil);
  EXPECT_TRUE(s.rules.empty());
  EXPECT_TRUE(s.others.keep);
  EXPECT_TRUE(s.telemetry);
  EXPECT_EQ(s.stream, Stream::current);
  EXPECT_EQ(s.raw_window, 0);
  EXPECT_EQ(s.guard.every_steps, 100U);
  EXPECT_EQ(s.guard.max_relative_error, 1.0);
  EXPECT_EQ(s.guard.max_gradient_error, 1.5);
  EXPECT_EQ(s.compiled.codec.name, "group_quant");
  EXPECT_EQ(s.compiled.codec.bits, 8);
  EXPECT_EQ(s.functions.codec.name, "exponent_pack");
}

TEST(Load, LosslessTreatsCompiledRegionsLosslessly) {
  const Settings s = accepted(R"({"version": 1, "policy": "lossless"})");
  EXPECT_EQ(s.compiled.codec.name, "exponent_pack");
  EXPECT_THAT(
      refused(R"({"version": 1, "policy": "lossless", "compiled": {"codec": {"name": "blpa"}}})"),
      testing::StartsWith(
          "p.json:1:69: compiled.codec.name: found the approximating codec \"blpa\""));
}

TEST(Load, TreatmentsAreACodecOrKeep) {
  EXPECT_EQ(
      refused(R"({"version": 1, "policy": "off", "functions": {}})"),
      "p.json:1:46: functions: found none of \"codec\", \"keep\", expected exactly one of them");
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "guard": {"every_steps": -1}})"),
              testing::HasSubstr("guard.every_steps: found -1, expected an integer from 0"));
}

TEST(Load, HostAllocatorUnlessOffOrToldOtherwise) {
  const auto host = [](const char* policy, const char* allocator) {
    return accepted(std::string(R"({"version": 1, "policy": ")") + policy + R"(", "allocator": )" +
                    allocator + "}")
        .allocator_host;
  };
  EXPECT_TRUE(host("division", "{}"));
  EXPECT_FALSE(host("division", R"({"host": false})"));
  EXPECT_FALSE(host("division", R"({"enabled": false, "host": true})"));
  EXPECT_FALSE(host("off", "{}"));
  EXPECT_TRUE(host("off", R"({"host": true})"));
  EXPECT_TRUE(host("off", R"({"enabled": true})"));
}

TEST(Load, CudaAllocatorUnlessOffOrToldOtherwise) {
  const auto cuda = [](const char* policy, const char* allocator) {
    return accepted(std::string(R"({"version": 1, "policy": ")") + policy + R"(", "allocator": )" +
                    allocator + "}")
        .allocator_cuda;
  };
  EXPECT_TRUE(cuda("division", "{}"));
  EXPECT_FALSE(cuda("division", R"({"cuda": false})"));
  EXPECT_TRUE(cuda("division", R"({"host": false})"));
  EXPECT_FALSE(cuda("division", R"({"enabled": false, "cuda": true})"));
  EXPECT_FALSE(cuda("off", "{}"));
  EXPECT_FALSE(cuda("off", R"({"host": true})"));
  EXPECT_TRUE(cuda("off", R"({"cuda": true})"));
  EXPECT_TRUE(cuda("off", R"({"enabled": true})"));
}

TEST(Load, TelemetryUnlessToldOtherwise) {
  EXPECT_FALSE(accepted(R"({"version": 1, "policy": "off", "telemetry": false})").telemetry);
  EXPECT_THAT(refused(R"({"version": 1, "policy": "off", "telemetry": 1})"),
              testing::HasSubstr("telemetry: found 1, expected a boolean"));
}

TEST(Load, EveryField) {
  const Settings s = accepted(R"({
    "$schema": "policy.schema.json", "version": 1, "description": "d", "policy": "division",
    "division": {"block": 16, "bits": 4, "edge": "paper"}, "min_bytes": 0, "seed": 4294967295,
    "allocator": {"enabled": false}, "stream": "side", "raw_window": 0.5,
    "guard": {"every_steps": 7, "max_relative_error": 0.2, "max_gradient_error": 0.3},
    "compiled": {"keep": true}, "functions": {"codec": {"name": "group_quant", "bits": 4}},
    "preset_rules": false, "rules": [
      {"comment": "c", "match": {"op": "aten::mm", "operand": "self", "dtype": "bfloat16",
                                 "shape": ["*", ">=64"]}, "codec": {"name": "division", "bits": 8}},
      {"match": {"op": "aten::x", "recomputed": false, "linear_output": true}, "keep": true}]})");
  EXPECT_EQ(s.division.block, 16);
  EXPECT_FALSE(s.division.edge_ceil);
  EXPECT_EQ(s.min_bytes, 0U);
  EXPECT_FALSE(s.allocator_host);
  EXPECT_FALSE(s.allocator_cuda);
  EXPECT_EQ(s.stream, Stream::side);
  EXPECT_EQ(s.raw_window, 0.5);
  EXPECT_EQ(s.guard.every_steps, 7U);
  EXPECT_EQ(s.guard.max_relative_error, 0.2);
  EXPECT_EQ(s.guard.max_gradient_error, 0.3);
  EXPECT_TRUE(s.compiled.keep);
  EXPECT_FALSE(s.functions.keep);
  EXPECT_EQ(s.functions.codec.name, "group_quant");
  EXPECT_EQ(s.functions.codec.bits, 4);
  EXPECT_EQ(s.seed, 4294967295U);
  ASSERT_EQ(s.rules.size(), 2U);
  EXPECT_EQ(s.rules[0].op, "aten::mm");
  EXPECT_EQ(s.rules[0].operand, "self");
  EXPECT_EQ(s.rules[0].dtype, Dtype{codecs::ElementType::bfloat16});
  EXPECT_THAT(s.rules[0].shape, testing::ElementsAre("*", ">=64"));
  EXPECT_EQ(s.rules[0].codec->bits, 8);
  EXPECT_EQ(s.rules[0].codec->block, 16) << "left out: the file's own division parameters";
  EXPECT_TRUE(s.rules[1].keep);
  EXPECT_FALSE(s.rules[1].codec);
  EXPECT_EQ(s.rules[1].operand, "*");
  EXPECT_FALSE(s.rules[0].recomputed);
  EXPECT_EQ(s.rules[1].recomputed, false);
  EXPECT_EQ(s.rules[1].linear_output, true);
}

TEST(Load, UnknownFieldIsSuggested) {
  const std::string message = refused("{\"version\": 1, \"policy\": \"off\",\n  \"min_byte\": 3}");
  EXPECT_THAT(message, testing::StartsWith("p.json:2:3: min_byte: found an unknown field, expected "
                                           "one of \"$schema\", \"acgc\", \"actnn\", "));
  EXPECT_THAT(message, testing::EndsWith("; did you mean \"min_bytes\"?"));
  EXPECT_EQ(refused("{\"version\": 1, \"policy\": \"division\",\n\"division\": {\n  \"bit\": 2}}"),
            "p.json:3:3: division.bit: found an unknown field, expected one of \"bits\", "
            "\"block\", \"dither\", \"edge\", \"group\"; did you mean \"bits\"?");
}

TEST(Load, AStateFileIsForPoliciesThatLearn) {
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "state_file": "x.json"})"),
              testing::HasSubstr("state_file: found a file for what policy \"division\" learns"));
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "comet", "state_file": "x.json"})").state_file,
            "x.json");
}

TEST(Load, FieldsOfLaterVersionsAreUnknown) {
  EXPECT_THAT(refused(R"({"version": 1, "policy": "off", "dry_run": {}})"),
              testing::HasSubstr("p.json:1:33: dry_run: found an unknown field"));
}

TEST(Load, Offload) {
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "division"})").in_flight_bytes,
            std::uint64_t{256} << 20);
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "division", "in_flight_bytes": "3MiB"})")
                .in_flight_bytes,
            std::uint64_t{3} << 20);
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "in_flight_bytes": "0.1B"})"),
              testing::HasSubstr("in_flight_bytes: found a size below 1 byte"));
  const OffloadSettings absent = accepted(R"({"version": 1, "policy": "division"})").offload;
  EXPECT_FALSE(absent.enabled);
  EXPECT_TRUE(absent.rescue);
  EXPECT_EQ(absent.host_bytes, 0U);
  EXPECT_EQ(absent.min_bytes, 65536U);
  const Settings settings = accepted(
      R"({"version": 1, "policy": "division",
          "offload": {"enabled": true, "rescue": false, "host_bytes": "1.5GiB", "min_bytes": 0},
          "rules": [{"match": {"op": "a"}, "keep": true, "offload": false},
                    {"match": {"op": "b"}, "keep": true}]})");
  EXPECT_TRUE(settings.offload.enabled);
  EXPECT_FALSE(settings.offload.rescue);
  EXPECT_EQ(settings.offload.host_bytes, std::uint64_t{3} << 29);
  EXPECT_EQ(settings.offload.min_bytes, 0U);
  EXPECT_EQ(settings.rules[0].offload, std::optional(false));
  EXPECT_EQ(settings.rules[1].offload, std::nullopt);
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "offload": {"host_bytes": "0.1B"}})"),
              testing::HasSubstr("p.json:1:64: offload.host_bytes: found a size below 1 byte"));
  EXPECT_THAT(refused(R"({"version": 1, "policy": "division", "offload": {"host_bytes": 5}})"),
              testing::HasSubstr("offload.host_bytes: found 5, expected a size like"));
}

TEST(Load, ActnnsUpperLevelsOffload) {
  EXPECT_FALSE(accepted(R"({"version": 1, "policy": "actnn"})").offload.enabled);
  for (const char* level : {"L4", "L5"}) {
    const Settings settings =
        accepted(std::string(R"({"version": 1, "policy": "actnn", "actnn": {"level": ")") + level +
                 R"("}, "offload": {"min_bytes": 7}})");
    EXPECT_TRUE(settings.offload.enabled) << level;
    EXPECT_EQ(settings.offload.min_bytes, 7U);
    EXPECT_TRUE(settings.allocator_cuda);
  }
}

TEST(Load, AdaptivePoliciesHaveTheirParameters) {
  const Settings actnn = accepted(
      R"({"version": 1, "policy": "actnn", "actnn": {"level": "L2", "fixed_bits": 3, "bits": 1.5}})");
  EXPECT_EQ(actnn.actnn.level, 2);
  EXPECT_EQ(actnn.actnn.fixed_bits, 3);
  EXPECT_EQ(actnn.actnn.bits, 1.5);
  const Settings acgc = accepted(
      R"({"version": 1, "policy": "acgc", "acgc": {"codec": "AutoQuant", "mode": "expected"}})");
  EXPECT_EQ(acgc.acgc.codec, AcgcSettings::Codec::quant);
  EXPECT_TRUE(acgc.acgc.expected);
  EXPECT_EQ(
      accepted(R"({"version": 1, "policy": "acgc", "acgc": {"codec": "AutoCuSZ"}})").acgc.codec,
      AcgcSettings::Codec::cusz);
  EXPECT_EQ(acgc.acgc.e2, 0.5);
  EXPECT_EQ(acgc.acgc.every_steps, 100U);
  const Settings comet = accepted(
      R"({"version": 1, "policy": "comet", "comet": {"mode": "paper", "every_steps": 500}})");
  EXPECT_TRUE(comet.comet.paper_mode);
  EXPECT_EQ(comet.comet.every_steps, 500U);
  EXPECT_EQ(comet.comet.a, 0.32);
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "blpa", "blpa": {"bits": 8}})").blpa_bits, 8);
  const auto budget = [](const char* target) {
    return accepted(std::string(R"({"version": 1, "policy": "budget", "budget": {)") + target +
                    "}}")
        .budget;
  };
  EXPECT_EQ(budget(R"("peak_bytes": "6GiB")").peak_bytes, 6ULL << 30);
  EXPECT_EQ(budget(R"("peak_bytes": "1.5MB")").peak_bytes, 1500000U);
  EXPECT_EQ(budget(R"("peak_bytes": "1.3GiB")").peak_bytes, 1395864371U);
  EXPECT_EQ(budget(R"("peak_bytes": "2.0B")").peak_bytes, 2U);
  EXPECT_EQ(budget(R"("ratio": 8)").ratio, 8);
  EXPECT_FALSE(budget(R"("ratio": 8)").offload);
  EXPECT_TRUE(budget(R"("ratio": 8, "offload": true)").offload);
}

TEST(Load, AdaptivePoliciesRefuseWhatCannotBe) {
  EXPECT_EQ(refused(R"({"version": 1, "policy": "budget"})"),
            "p.json:1:26: policy: found \"budget\" without its target, expected a field \"budget\" "
            "with \"peak_bytes\" or \"ratio\" in it");
  EXPECT_THAT(
      refused(R"({"version": 1, "policy": "budget", "budget": {"peak_bytes": "6 GiB"}})"),
      testing::HasSubstr("p.json:1:61: budget.peak_bytes: found \"6 GiB\", expected a size"));
  EXPECT_EQ(
      refused(
          R"({"version": 1, "policy": "budget", "budget": {"peak_bytes": "999999999999999TiB"}})"),
      "p.json:1:61: budget.peak_bytes: found a size below 1 byte, above 2^53 - 1 bytes, or with a "
      "fraction before \"B\", expected one like \"6GiB\", \"1.5MB\" or \"2500B\"");
  EXPECT_THAT(refused(R"({"version": 1, "policy": "budget", "budget": {"peak_bytes": "2.5B"}})"),
              testing::HasSubstr("p.json:1:61: budget.peak_bytes: found a size below 1 byte"));
  EXPECT_THAT(
      refused(R"({"version": 1, "policy": "budget", "budget": {"ratio": 8, "peak_bytes": "1GB"}})"),
      testing::HasSubstr("budget: found both of"));
  EXPECT_THAT(refused(R"({"version": 1, "policy": "actnn", "actnn": {"level": "L4"},
                          "offload": {"enabled": false}})"),
              testing::AllOf(testing::HasSubstr("p.json:1:54: actnn.level: found level L4"),
                             testing::HasSubstr("expected L0 to L3")));
  EXPECT_THAT(refused(R"({"version": 1, "policy": "actnn", "actnn": {"level": "L5"},
                          "allocator": {"cuda": false}})"),
              testing::AllOf(testing::HasSubstr("p.json:1:54: actnn.level: found level L5"),
                             testing::HasSubstr("expected L0 to L4")));
  for (const char* codec : {"AutoCuSZ", "AutoJPEG", "AutoJPEGZ"}) {
    EXPECT_THAT(
        refused(R"({"version": 1, "policy": "acgc", "acgc": {"mode": "expected", "codec": ")" +
                std::string(codec) + "\"}}"),
        testing::AllOf(testing::HasSubstr("p.json:1:51: acgc.mode: found \"expected\""),
                       testing::HasSubstr("rounds to nearest")));
  }
  EXPECT_EQ(refused(R"({"version": 1, "policy": "actnn", "actnn": {"fixed_bits": 2}})"),
            "p.json:1:59: actnn.fixed_bits: found 2, expected an integer from 3 to 8");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "actnn", "actnn": {"bits": 1e400}})"),
            "p.json:1:53: found a number that is too large, expected one that a double can hold");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "blpa", "blpa": {"bits": 3}})"),
            "p.json:1:51: blpa.bits: found 3, expected one of 4, 8");
  EXPECT_THAT(refused(R"({"version": 1, "policy": "acgc", "acgc": {"every_steps": 0}})"),
              testing::HasSubstr("acgc.every_steps: found 0, expected an integer from 1"));
  EXPECT_THAT(refused(R"({"version": 1, "policy": "acgc", "acgc": {"codec": "AutoQunt"}})"),
              testing::HasSubstr("did you mean \"AutoQuant\"?"));
}

TEST(Load, WrongEnumIsSuggested) {
  EXPECT_EQ(refused("{\"version\": 1,\n \"policy\": \"divison\"}"),
            "p.json:2:12: policy: found \"divison\", expected one of \"default\", \"division\", "
            "\"actnn\", "
            "\"blpa\", \"acgc\", \"comet\", \"budget\", \"lossless\", "
            "\"off\"; did you mean \"division\"?");
  std::string names;
  for (const std::string_view name : codecs::codec_names()) {
    names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  EXPECT_EQ(refused(R"({"version": 1, "policy": "division",
  "rules": [{"match": {"op": "x"}, "keep": true},
            {"match": {"op": "y"}, "codec": {"name": "divsion"}}]})"),
            "p.json:3:54: rules[1].codec.name: found \"divsion\", expected one of " + names +
                "; did you mean \"division\"?");
}

TEST(Load, WrongTypesAndRanges) {
  EXPECT_EQ(refused(R"({"version": 1, "policy": 3})"),
            "p.json:1:26: policy: found 3, expected one of \"default\", \"division\", \"actnn\", "
            "\"blpa\", "
            "\"acgc\", \"comet\", \"budget\", \"lossless\", \"off\"");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "off", "seed": -1})"),
            "p.json:1:41: seed: found -1, expected an integer from 0 to 4294967295");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "off", "seed": 1.5})"),
            "p.json:1:41: seed: found 1.5, expected an integer from 0 to 4294967295");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "off", "min_bytes": "4 KiB"})"),
            "p.json:1:46: min_bytes: found \"4 KiB\", expected an integer from 0 to "
            "9007199254740991");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "off", "division": {"bits": 9}})"),
            "p.json:1:54: division.bits: found 9, expected an integer from 1 to 8");
  EXPECT_EQ(refused(R"({"version": 1, "policy": "off", "division": []})"),
            "p.json:1:45: division: found an array, expected an object");
  EXPECT_EQ(refused(R"({"version": 2, "policy": "off"})"),
            "p.json:1:13: version: found 2, expected 1");
  EXPECT_EQ(refused("[]"), "p.json:1:1: found an array, expected an object");
  EXPECT_EQ(
      refused(R"({"version":1,"policy":"off","rules":[{"match":{"shape":["6x"]},"keep":true}]})"),
      "p.json:1:57: rules[0].match.shape[0]: found \"6x\", expected \"*\", a size like "
      "\"64\" or a bound like \">=64\" or \"<=64\"");
  EXPECT_EQ(refused(R"({"version":1,"policy":"off","rules":[{"match":{"op":""},"keep":true}]})"),
            "p.json:1:53: rules[0].match.op: found \"\", expected a string, not empty");
}

TEST(Load, WhatPoliciesUsedToBeIsUnknown) {
  EXPECT_EQ(refused(R"({"version": 1, "policy": "auto"})"),
            "p.json:1:26: policy: found \"auto\", expected one of \"default\", \"division\", "
            "\"actnn\", \"blpa\", \"acgc\", \"comet\", \"budget\", \"lossless\", \"off\"");
  EXPECT_THAT(refused(R"({"version": 1, "policy": "budget", "budget": {"ratio": 8}, "auto": {}})"),
              testing::HasSubstr("auto: found an unknown field, expected one of "));
}

TEST(Load, MissingFields) {
  EXPECT_EQ(refused("\n {}"), "p.json:2:2: found no field \"version\", expected it to be 1");
  EXPECT_EQ(
      refused(R"({"version": 1})"),
      "p.json:1:1: found no field \"policy\", expected it to be one of \"default\", \"division\", "
      "\"actnn\", \"blpa\", \"acgc\", \"comet\", \"budget\", "
      "\"lossless\", \"off\"");
  EXPECT_EQ(refused(R"({"version":1,"policy":"off","rules":[{"keep":true}]})"),
            "p.json:1:38: rules[0]: found no field \"match\", expected it");
  EXPECT_THAT(refused(R"({"version":1,"policy":"off","rules":[{"match":{},"keep":true}]})"),
              testing::StartsWith("p.json:1:47: rules[0].match: found no field, expected one of"));
}

TEST(Load, RulesHaveExactlyOneOutcome) {
  EXPECT_EQ(refused(R"({"version":1,"policy":"off","rules":[{"match":{"op":"x"}}]})"),
            "p.json:1:38: rules[0]: found none of \"codec\", \"keep\", expected exactly one of "
            "them");
  EXPECT_EQ(refused(R"({"version":1,"policy":"off","rules":[
{"match":{"op":"x"},"keep":true,"codec":{"name":"raw"}}]})"),
            "p.json:2:1: rules[0]: found both of \"codec\", \"keep\", expected exactly one of "
            "them");
  EXPECT_EQ(refused(R"({"version":1,"policy":"off","rules":[{"match":{"op":"x"},"keep":false}]})"),
            "p.json:1:65: rules[0].keep: found false, expected true");
}

TEST(Load, TheFirstOfSeveralErrorsIsReported) {
  EXPECT_THAT(refused(R"({"version": 1, "polcy": "off", "seed": -1, "x": 0})"),
              testing::StartsWith("p.json:1:40: seed: "))
      << "errors inside a value come before errors of what surrounds it";
}

TEST(Load, LosslessMeansLossless) {
  EXPECT_EQ(refused(R"({"version": 1, "policy": "lossless", "rules": [
  {"match": {"op": "x"}, "codec": {"name": "division"}}]})"),
            "p.json:2:44: rules[0].codec.name: found the approximating codec \"division\" under "
            "policy \"lossless\", expected an exact one, such as \"raw\"");
}

TEST(Load, DuplicateKeysAndSyntaxErrorsCarryFileAndPlace) {
  EXPECT_EQ(refused("{\"version\": 1,\n \"version\": 1}"),
            "p.json:2:2: version: found the key \"version\" a second time, expected each key once");
  EXPECT_THAT(refused("{\n\"version\" 1}"), testing::StartsWith("p.json:2:11: syntax error"));
}

TEST(Load, HostileTextNeverThrows) {
  const std::string_view seed = presets()[0].text;
  for (std::size_t i = 0; i < seed.size(); i += 7) {
    std::string text(seed);
    for (const char c : {'\0', '"', '{', '\xff', '9'}) {
      text[i] = c;
      (void)parse_settings(text, "fuzz");
    }
    (void)parse_settings(seed.substr(0, i), "cut");
  }
}

TEST(Load, TheWindowIsForWhatIsCopiedOrDecodedAhead) {
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "lossless"})").raw_window, 0);
  EXPECT_EQ(accepted(R"({"version": 1, "policy": "lossless", "stream": "side"})").raw_window,
            0.125);
  EXPECT_EQ(
      accepted(R"({"version": 1, "policy": "lossless", "offload": {"enabled": true}})").raw_window,
      0.125);
  EXPECT_GE(accepted(R"({"version": 1, "policy": "off"})").raw_window, 1000);
}

TEST(Load, WhatIsDerived) {
  const Settings usual = accepted(R"({"version": 1, "policy": "lossless"})");
  EXPECT_TRUE(usual.derive.enabled);
  EXPECT_TRUE(usual.derive.attention);
  EXPECT_EQ(usual.derive.depth, 2);
  const Settings asked = accepted(
      R"({"version": 1, "policy": "division", "derive": {"enabled": true, "attention": false, "depth": 1}})");
  EXPECT_TRUE(asked.derive.enabled);
  EXPECT_FALSE(asked.derive.attention);
  EXPECT_EQ(asked.derive.depth, 1);
}

TEST(LoadSettings, UnknownPresetIsSuggested) {
  const auto result = load_settings("losless");
  EXPECT_EQ(std::get<PolicyError>(result).to_string(),
            "losless: found no preset of this name, expected one of \"acgc\", \"actnn\", "
            "\"blpa\", "
            "\"budget\", \"comet\", \"default\", \"division\", \"lossless\", \"off\" or a path "
            "(with a '/' or "
            "ending in \".json\"); did you mean \"lossless\"?");
}

TEST(LoadSettings, UnreadableFilesSaySo) {
  EXPECT_EQ(std::get<PolicyError>(load_settings("./no/such.json")).to_string(),
            "./no/such.json: cannot read the policy: No such file or directory");
  EXPECT_EQ(std::get<PolicyError>(load_settings("/")).to_string(),
            "/: cannot read the policy: Is a directory");
}

TEST(LoadSettings, ReadsFiles) {
  const auto result = load_settings(CINCH_CONFIGS_DIR "/lossless.json");
  ASSERT_TRUE(std::holds_alternative<Settings>(result));
  EXPECT_EQ(std::get<Settings>(result).name, CINCH_CONFIGS_DIR "/lossless.json");
}

TEST(Schema, CodecNamesAreTheRegistrys) {
  const auto schema = nlohmann::json::parse(schema_text());
  const auto names = schema.at("definitions").at("codec").at("properties").at("name").at("enum");
  const auto known = codecs::codec_names();
  EXPECT_EQ(names.get<std::vector<std::string>>(),
            std::vector<std::string>(known.begin(), known.end()));
}

TEST(Schema, AlgorithmsAreTheTables) {
  const auto schema = nlohmann::json::parse(schema_text());
  const auto& properties = schema.at("properties");
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.emplace_back(algorithm.name);
    EXPECT_TRUE(algorithm.read == nullptr || properties.contains(algorithm.name));
  }
  EXPECT_EQ(properties.at("policy").at("enum").get<std::vector<std::string>>(), names);
}

}  // namespace
}  // namespace cinch::policy
