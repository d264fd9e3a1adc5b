// SPDX-License-Identifier: Apache-2.0
#include "policy/match.h"

#include <string>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(Glob, LiteralsMatchThemselves) {
  EXPECT_TRUE(glob_match("aten::mm", "aten::mm"));
  EXPECT_FALSE(glob_match("aten::mm", "aten::addmm"));
  EXPECT_FALSE(glob_match("aten::mm", "aten::mm_"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "x"));
}

TEST(Glob, Wildcards) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*mm", "aten::addmm"));
  EXPECT_TRUE(glob_match("aten::_scaled*", "aten::_scaled_dot_product_flash_attention_for_cpu"));
  EXPECT_TRUE(glob_match("a*b*c", "a__b_b__c"));
  EXPECT_FALSE(glob_match("a*b*c", "a__b_b__"));
  EXPECT_TRUE(glob_match("mat?", "mat1"));
  EXPECT_FALSE(glob_match("mat?", "mat"));
  EXPECT_TRUE(glob_match("**?**", "x"));
}

TEST(Glob, StaysQuickOnPathologicalPatterns) {
  const std::string text(5000, 'a');
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*b", text));
}

TEST(Dimension, StarExactAndBound) {
  EXPECT_TRUE(dimension_match("*", 7));
  EXPECT_TRUE(dimension_match("64", 64));
  EXPECT_FALSE(dimension_match("64", 63));
  EXPECT_TRUE(dimension_match(">=64", 64));
  EXPECT_TRUE(dimension_match(">=64", 65));
  EXPECT_FALSE(dimension_match(">=64", 63));
  EXPECT_TRUE(dimension_match("<=64", 64));
  EXPECT_TRUE(dimension_match("<=64", 63));
  EXPECT_FALSE(dimension_match("<=64", 65));
}

TEST(FunctionalName, DropsTheInPlaceUnderscoreOnly) {
  EXPECT_EQ(functional_name("aten::relu_"), "aten::relu");
  EXPECT_EQ(functional_name("aten::relu"), "aten::relu");
  EXPECT_EQ(functional_name("aten::__and__"), "aten::__and__");
  EXPECT_EQ(functional_name("MyFunction_"), "MyFunction_");
}

TEST(Dtype, NamesArePyTorchs) {
  for (const char* name :
       {"float32", "bfloat16", "float64", "int64", "complex32", "complex64", "complex128"}) {
    const auto dtype = dtype_named(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(name_of(*dtype), name);
    EXPECT_EQ(dtype->is_complex, std::string_view(name).starts_with("complex"));
  }
  EXPECT_EQ(dtype_named("complex128")->type, codecs::ElementType::float64);
  EXPECT_FALSE(dtype_named("other"));
  EXPECT_FALSE(dtype_named("complex16"));
  EXPECT_EQ(name_of({codecs::ElementType::int64, true}), "other");
}

TEST(RuleMatch, EveryGivenFieldHasToMatch) {
  const std::int64_t sizes[] = {8, 64, 14, 14};
  const std::int64_t strides[] = {64 * 196, 196, 14, 1};
  Use use{"aten::silu_", "self", false, codecs::ElementType::float32, {sizes, strides, 0}, {}};
  Rule rule;
  EXPECT_TRUE(rule_match(rule, use));
  rule.op = "aten::silu";
  EXPECT_TRUE(rule_match(rule, use)) << "in-place variants match";
  rule.operand = "result";
  EXPECT_FALSE(rule_match(rule, use));
  rule.operand = "s*";
  rule.dtype = Dtype{codecs::ElementType::bfloat16};
  EXPECT_FALSE(rule_match(rule, use));
  rule.dtype = Dtype{codecs::ElementType::float32};
  rule.shape = {"*", "64", ">=8", ">=8"};
  EXPECT_TRUE(rule_match(rule, use));
  rule.shape = {"*", "64", ">=8"};
  EXPECT_FALSE(rule_match(rule, use)) << "ranks differ";
  rule.shape = {"*", "64", "14", "14"};
  use.is_complex = true;
  EXPECT_FALSE(rule_match(rule, use)) << "complex64 is not float32";
  rule.dtype = dtype_named("complex64");
  EXPECT_TRUE(rule_match(rule, use));
  rule.recomputed = true;
  EXPECT_FALSE(rule_match(rule, use));
  use.is_recomputed = true;
  EXPECT_TRUE(rule_match(rule, use));
  rule.recomputed = false;
  EXPECT_FALSE(rule_match(rule, use));
  rule.recomputed.reset();
  rule.linear_output = true;
  EXPECT_FALSE(rule_match(rule, use));
  use.is_linear_output = true;
  EXPECT_TRUE(rule_match(rule, use));
}

}  // namespace
}  // namespace cinch::policy
