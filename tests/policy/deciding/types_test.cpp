// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/deciding/decisions.h"

namespace cinch::policy {
namespace {

TEST(Decide, Float64IsHeldInGroupsWhereTheOperandToleratesIt) {
  const auto of = [](std::string_view name, std::string_view op, std::string_view operand) {
    EntryBuilder entry;
    entry.use(op, operand, {64, 256}).typed(Type::float64);
    return preset(name).decide(entry.build());
  };
  const Decision linear = of("default", "aten::addmm", "mat1");
  ASSERT_THAT(codec_names(linear), testing::ElementsAre("group_quant"));
  EXPECT_EQ(linear.candidates[0].spec.bits, 6) << "twice those of float32";
  EXPECT_TRUE(linear.candidates[0].spec.subtractive_dither);
  EXPECT_EQ(linear.candidates[0].what.type, Type::float64);
  EXPECT_EQ(linear.candidates[0].what.layout.elements(), 64 * 256);
  EXPECT_THAT(codec_names(of("default", "aten::gelu", "self")),
              testing::ElementsAre("group_quant"));
  EXPECT_THAT(codec_names(of("default", "aten::exp", "result")),
              testing::ElementsAre("two_valued", "group_quant"));
  EXPECT_THAT(codec_names(of("default", "aten::div", "other")),
              testing::ElementsAre("exponent_pack"));
  EXPECT_THAT(codec_names(of("default", "aten::sin", "self")),
              testing::ElementsAre("two_valued", "exponent_pack"));
  // DIVISION's codec takes no float64: what the preset has for other operands does.
  const Decision fallback = of("division", "aten::addmm", "mat1");
  ASSERT_THAT(codec_names(fallback), testing::ElementsAre("group_quant"));
  EXPECT_EQ(fallback.candidates[0].spec.bits, 8);
  const auto alone = [](std::string_view op) {
    EntryBuilder entry;
    entry.use(op, op == "aten::addmm" ? "mat1" : "self", {64, 256}).typed(Type::float64);
    return with_rules("").decide(entry.build());
  };
  EXPECT_EQ(alone("aten::addmm").reason, "element type without a codec");
  EXPECT_EQ(alone("aten::gelu").reason, "no rule chooses a codec");
}

TEST(Decide, Float64GetsTwiceARulesBitsUnlessItNamesTheType) {
  const auto bits = [](const std::string& match, int given) {
    const Policy policy =
        with_rules(R"({"match":{)" + match + R"(},"codec":{"name":"group_quant","bits":)" +
                   std::to_string(given) + "}}");
    EntryBuilder entry;
    entry.use("aten::addmm", "mat1", {64, 256}).typed(Type::float64);
    return policy.decide(entry.build()).candidates.at(0).spec.bits;
  };
  EXPECT_EQ(bits(R"("op":"aten::addmm")", 2), 4);
  EXPECT_EQ(bits(R"("op":"aten::addmm")", 5), 8);
  EXPECT_EQ(bits(R"("op":"aten::addmm","dtype":"float64")", 2), 2);
}

TEST(Decide, SignsOfFloat64AreHeldAloneAndBesideValues) {
  EntryBuilder entry;
  entry.use("aten::relu", "result", {64, 256}).typed(Type::float64);
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("sign"));
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("sign"));
  entry.use("aten::addmm", "mat1", {64, 256}).typed(Type::float64);
  const Decision both = division(entry);
  ASSERT_THAT(codec_names(both), testing::ElementsAre("group_quant"));
  EXPECT_TRUE(both.candidates[0].spec.with_sign);
  EXPECT_EQ(both.candidates[0].spec.signed_values, SignedValues::non_negative);
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
}

TEST(Decide, AdaptivePoliciesLeaveFloat64AsItIs) {
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec.name = "group_quant";
  EntryBuilder entry;
  entry.use("aten::addmm", "mat1", {64, 256}).typed(Type::float64);
  EntryDescription description = entry.build();
  description.choice = &choice;
  const Decision d = preset("acgc").decide(description);
  EXPECT_EQ(d.action, Action::keep);
  EXPECT_EQ(d.reason, "element type without a codec");
}

TEST(Decide, ComplexNumbersAreHeldAsTheirParts) {
  for (const Type parts : {Type::float32, Type::float64}) {
    EntryBuilder entry;
    entry.use("aten::bmm", "self", {16, 32, 24}).typed(parts).complex();
    const Decision d = preset("default").decide(entry.build());
    ASSERT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    EXPECT_EQ(d.candidates[0].spec.bits, parts == Type::float32 ? 4 : 8);
    EXPECT_EQ(d.candidates[0].what.type, parts);
    EXPECT_EQ(d.candidates[0].what.layout.elements(), 2 * 16 * 32 * 24);
    const Decision exact = lossless(entry);
    EXPECT_THAT(codec_names(exact), testing::ElementsAre("exponent_pack"));
    EXPECT_EQ(exact.candidates[0].what.layout.elements(), 2 * 16 * 32 * 24);
  }
  // DIVISION's rows are the numbers' rows.
  EntryBuilder rows;
  rows.use("aten::mm", "self", {64, 100}).complex();
  const Decision d = division(rows);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  EXPECT_EQ(d.candidates[0].what.layout.planes(), 64);
  EXPECT_EQ(d.candidates[0].what.layout.plane_size(), 200);
}

TEST(Decide, AComplexViewAndARealOneAreOfOneType) {
  EntryBuilder entry;
  entry.use("aten::mul", "other", {64, 32}).complex().use("aten::mul", "self", {64, 32, 2});
  const Decision d = division(entry);
  EXPECT_THAT(codec_names(d), testing::ElementsAre("two_valued", "group_quant"));
  EXPECT_EQ(d.candidates[1].what.layout.elements(), 64 * 32 * 2);
}

TEST(Decide, OneComplexNumberARowIsTakenForStatistics) {
  for (const Dims& sizes : {Dims{64, 64, 1}, Dims{4096}}) {
    EntryBuilder entry;
    entry.use("aten::mul", "other", sizes).complex();
    EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("two_valued", "exponent_pack"));
  }
}

TEST(Decide, PolesOfComplexDerivativesAreNotApproximated) {
  const auto of = [](bool is_complex, std::string_view op) {
    EntryBuilder entry;
    entry.use(op, "self", {64, 256});
    if (is_complex) entry.complex();
    return codec_names(preset("default").decide(entry.build()));
  };
  for (const char* op : {"aten::atan", "aten::asinh"}) {
    EXPECT_THAT(of(false, op), testing::Contains("group_quant")) << op;
    EXPECT_THAT(of(true, op), testing::ElementsAre("two_valued", "exponent_pack")) << op;
  }
}

}  // namespace
}  // namespace cinch::policy
