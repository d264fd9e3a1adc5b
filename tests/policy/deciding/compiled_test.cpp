// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/deciding/decisions.h"

namespace cinch::policy {
namespace {

TEST(Decide, CompiledRegionsGetEightBitGroupsButForStatistics) {
  const auto decide = [](Dims sizes, Type type = Type::float32) {
    EntryBuilder entry;
    entry.use("CompiledFunction", "", std::move(sizes)).typed(type).from(Origin::compiled);
    return division(entry);
  };
  const Decision d = decide({8, 128, 64});
  ASSERT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
  EXPECT_EQ(d.candidates[0].spec.bits, 8);
  for (const Dims& one_value_a_row : {Dims{8, 128, 1}, Dims{4096}}) {
    EXPECT_THAT(codec_names(decide(one_value_a_row)),
                testing::ElementsAre("two_valued", "exponent_pack"));
  }
  EXPECT_THAT(codec_names(decide({8, 128, 64}, Type::boolean)), testing::ElementsAre("two_valued"));
  EXPECT_EQ(decide({8, 128, 64}, Type::int64).action, Action::keep);
}

using ReadList = std::vector<BackwardRead>;

/// How `policy` holds a tensor of a compiled region that backward reads as `reads`.
Decision compiled(const Policy& policy, ReadList reads, Dims sizes = {8, 128, 64}) {
  EntryBuilder entry;
  entry.use("CompiledFunction", "in words", std::move(sizes)).from(Origin::compiled);
  return policy.decide(entry.read_as(std::move(reads)).build());
}

TEST(Decide, CompiledRegionsAreHeldAsWhatBackwardReadsThemFor) {
  const Policy policy = preset("default");
  const auto bits = [&policy](ReadList reads) {
    const Decision d = compiled(policy, std::move(reads));
    EXPECT_EQ(codec_names(d).back(), "group_quant");
    return std::pair(d.candidates.back().spec.bits, d.candidates.back().spec.subtractive_dither);
  };
  EXPECT_EQ(bits({{"aten::mm", "mat2"}}), std::pair(3, true));
  EXPECT_EQ(bits({{"aten::gelu", "self"}}), std::pair(3, true));
  EXPECT_EQ(bits({{"aten::native_layer_norm", "input"}}), std::pair(4, true));
  EXPECT_EQ(bits({{"aten::mul", "self"}}), std::pair(4, false));
  EXPECT_EQ(bits({{"aten::mm", "mat2"}, {"aten::mul", "self"}}), std::pair(4, false));
  EXPECT_EQ(bits({{"aten::avg_pool2d", "self"}}), std::pair(4, false))
      << "Python is given values, though none is read";
  EXPECT_EQ(bits({{"aten::hardtanh", "self"}}), std::pair(8, false)) << "nothing is known";
  EXPECT_EQ(bits({}), std::pair(8, false));
  for (const ReadList& exact : {ReadList{{"aten::native_layer_norm", "mean"}},
                                ReadList{{"aten::mm", "mat2"}, {"aten::div", "other", true}}}) {
    EXPECT_EQ(codec_names(compiled(policy, exact)).back(), "exponent_pack");
  }
}

TEST(Decide, CompiledRegionsGetOneTensorForValuesAndSigns) {
  const Decision d =
      compiled(preset("default"), {{"aten::convolution", "input"}, {"aten::relu", "result"}},
               {4, 16, 28, 28});
  const auto& spec = d.candidates.back().spec;
  EXPECT_EQ(spec.name, "group_quant");
  EXPECT_TRUE(spec.with_sign);
  EXPECT_EQ(spec.signed_values, SignedValues::agreeing);
  EXPECT_FALSE(spec.subtractive_dither) << "zeros stay zeros";
}

TEST(Decide, CompiledRegionsStatisticsAreExactWhateverReadsThem) {
  const Policy policy = preset("default");
  for (const Dims& sizes : {Dims{4096}, Dims{8, 128, 1}}) {
    EXPECT_EQ(codec_names(compiled(policy, {{"aten::mm", "mat2"}}, sizes)).back(), "exponent_pack");
  }
  const Dims one_a_plane = {8, 1, 28, 28};
  EXPECT_EQ(codec_names(compiled(policy, {{"aten::mul", "self"}}, one_a_plane)).back(),
            "exponent_pack");
  EXPECT_EQ(codec_names(compiled(policy, {{"aten::convolution", "input"}}, one_a_plane)).back(),
            "group_quant");
}

TEST(Decide, CompiledRegionsByChoice) {
  const auto with = [](const std::string& fields) {
    return Policy(std::get<Settings>(
        parse_settings(R"({"version":1,"policy":"default",)" + fields + "}", "test")));
  };
  const ReadList product = {{"aten::bmm", "self"}};
  const ReadList exact = {{"aten::div", "other", true}};
  const Policy six = with(R"("compiled":{"codec":{"name":"group_quant","bits":6}})");
  EXPECT_EQ(compiled(six, product).candidates.back().spec.bits, 6);
  EXPECT_EQ(codec_names(compiled(six, exact)).back(), "exponent_pack");
  const Policy keeps = with(R"("compiled":{"keep":true})");
  EXPECT_EQ(codec_names(compiled(keeps, product)).back(), "exponent_pack");
  // Rules name the region, or what is in it.
  for (const std::string match :
       {R"("op":"CompiledFunction")", R"("op":"CompiledFunction","operand":"in words")",
        R"("op":"aten::bmm","operand":"self")"}) {
    const Policy rule =
        with(R"("rules":[{"match":{)" + match + R"(},"codec":{"name":"group_quant","bits":7}}])");
    EXPECT_EQ(compiled(rule, product).candidates.back().spec.bits, 7) << match;
    EXPECT_EQ(codec_names(compiled(rule, exact)).back(), "exponent_pack") << match;
  }
  // Where other floats are kept, compiled regions are held as if nothing were known.
  EXPECT_EQ(compiled(preset("blpa"), product).candidates.back().spec.bits, 8);
}

TEST(Decide, CustomFunctionsAreLosslessUnlessARuleNamesThem) {
  EntryBuilder entry;
  entry.use("MyFunction", "", {8, 128, 64}).from(Origin::function);
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("exponent_pack"));
  const Policy named =
      with_rules(R"({"match":{"op":"MyFunction"},"codec":{"name":"group_quant","bits":4}})");
  EXPECT_THAT(codec_names(named.decide(entry.build())), testing::ElementsAre("group_quant"));
  // Another use of the same storage that may be approximated does not make this one lossy.
  entry.use("aten::addmm", "mat1", {1024, 64});
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("exponent_pack"));
}

}  // namespace
}  // namespace cinch::policy
