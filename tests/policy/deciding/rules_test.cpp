// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/deciding/decisions.h"

namespace cinch::policy {
namespace {

TEST(Decide, TheMostPreciseUseWins) {
  const Policy policy = with_rules(
      R"({"match":{"op":"a"},"codec":{"name":"division","bits":3}},
         {"match":{"op":"b"},"codec":{"name":"division","bits":5,"block":64}},
         {"match":{"op":"c"},"codec":{"name":"division","bits":5,"block":32}})");
  const Decision d = policy.decide(EntryBuilder()
                                       .use("a", "x", {64, 64})
                                       .use("b", "x", {64, 64})
                                       .use("c", "x", {64, 64})
                                       .build());
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].spec.bits, 5);
  EXPECT_EQ(d.candidates[0].spec.block, 32);
}

TEST(Decide, RulesKeep) {
  const Policy policy = with_rules(R"({"match":{"op":"aten::relu"},"keep":true})");
  const Decision d = policy.decide(EntryBuilder()
                                       .use("aten::convolution", "input", {4, 16, 28, 28})
                                       .use("aten::relu_", "result", {4, 16, 28, 28})
                                       .build());
  EXPECT_EQ(d.action, Action::keep);
  EXPECT_EQ(d.reason, "a rule keeps it");
}

TEST(Decide, BroadRulesCannotApproximateWhatMustBeExact) {
  const Policy policy = with_rules(R"({"match":{"op":"*"},"codec":{"name":"division","bits":4}})");
  const auto action = [&policy](std::string_view op, std::string_view operand) {
    return policy.decide(EntryBuilder().use(op, operand, {64, 64}).build());
  };
  EXPECT_EQ(action("aten::native_layer_norm", "weight").action, Action::keep);
  EXPECT_EQ(action("aten::avg_pool2d", "self").action, Action::drop);
  EXPECT_THAT(codec_names(action("aten::relu", "result")), testing::ElementsAre("sign"));
  EXPECT_THAT(codec_names(action("MyFunction", "x")), testing::ElementsAre("division"));
}

TEST(Decide, AdviceHoldsWhatNoPlanDecides) {
  const Policy policy = preset("budget");
  Choice plan;
  plan.action = Choice::Action::encode;
  plan.spec = {.name = "group_quant", .bits = 6};
  const auto spec = [&](std::string_view op, std::string_view operand, Origin origin = Origin::op) {
    EntryBuilder builder;
    EntryDescription entry = builder.use(op, operand, {8, 64, 64}).from(origin).build();
    entry.choice = &plan;
    return policy.decide(entry).candidates.at(0).spec;
  };
  EXPECT_EQ(spec("aten::native_layer_norm", "input").bits, 6) << "the plan's";
  EXPECT_EQ(spec("aten::_log_softmax", "result").name, "exponent_pack") << "of 64 classes";
  EXPECT_EQ(spec("LigerSiLUMulFunction", "x", Origin::function).name, "exponent_pack")
      << "the rule is for matrices";
  EXPECT_EQ(spec("CheckpointFunction", "x", Origin::function).bits, 4);
}

TEST(Decide, NoRuleApproximatesWhatIsMagnified) {
  const Policy policy =
      with_rules(R"({"match":{"op":"aten::bmm"},"codec":{"name":"group_quant","bits":4}})");
  EntryBuilder product;
  product.use("aten::bmm", "self", {4, 64, 64});
  EXPECT_THAT(codec_names(policy.decide(product.build())), testing::ElementsAre("group_quant"));
  EXPECT_EQ(policy.decide(product.magnified().build()).action, Action::keep);
}

TEST(Decide, AFloorHoldsWhereAllReadersAllowIt) {
  const Policy policy = with_rules(
      R"({"match":{"op":"aten::gelu"},"codec":{"name":"group_quant","floor":-3}},
         {"match":{"op":"aten::silu"},"codec":{"name":"group_quant","floor":-6}},
         {"match":{"op":"aten::mm"},"codec":{"name":"group_quant"}},
         {"match":{"op":"aten::_prelu_kernel"},"codec":{"name":"group_quant","floor":-3}})");
  const auto floor = [&policy](const EntryBuilder& entry) {
    const Decision d = policy.decide(entry.build());
    EXPECT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    return d.candidates[0].spec.floor;
  };
  constexpr float none = -std::numeric_limits<float>::infinity();
  const Dims sizes = {64, 64};
  EXPECT_EQ(floor(EntryBuilder().use("aten::gelu", "self", sizes)), -3);
  EXPECT_EQ(floor(EntryBuilder().use("aten::gelu", "self", sizes).use("aten::silu", "self", sizes)),
            -6);
  EXPECT_EQ(floor(EntryBuilder().use("aten::gelu", "self", sizes).use("aten::mm", "self", sizes)),
            none);
  EXPECT_EQ(floor(EntryBuilder().use("aten::_prelu_kernel", "self", sizes)), none)
      << "beside signs";

  EntryBuilder source;
  source.use("aten::gelu", "self", sizes).use("aten::gelu", "self", sizes).for_recipe();
  EXPECT_EQ(floor(source), none) << "a recipe may compute anything";
  EXPECT_EQ(floor(source.as_argument()), -3);
}

TEST(Decide, RootsWinOverOneMoreBit) {
  const Policy policy = with_rules(
      R"({"match":{"op":"aten::_softmax"},
          "codec":{"name":"group_quant","bits":3,"dither":"subtractive","roots":true}},
         {"match":{"op":"aten::bmm"},"codec":{"name":"group_quant","bits":4}},
         {"match":{"op":"aten::mm"},"codec":{"name":"group_quant","bits":5}})");
  const Dims sizes = {8, 64, 64};
  const auto spec = [&policy](const EntryBuilder& entry) {
    return policy.decide(entry.build()).candidates.back().spec;
  };
  const codecs::CodecSpec roots =
      spec(EntryBuilder().use("aten::bmm", "self", sizes).use("aten::_softmax", "result", sizes));
  EXPECT_EQ(roots.bits, 3);
  EXPECT_TRUE(roots.roots);
  const codecs::CodecSpec more =
      spec(EntryBuilder().use("aten::_softmax", "result", sizes).use("aten::mm", "self", sizes));
  EXPECT_EQ(more.bits, 5);
  EXPECT_FALSE(more.roots);
}

TEST(Decide, RulesMayAskForRaw) {
  const Policy policy = with_rules(R"({"match":{"op":"aten::mm"},"codec":{"name":"raw"}})");
  EXPECT_THAT(codec_names(policy.decide(EntryBuilder().use("aten::mm", "self", {64, 64}).build())),
              testing::ElementsAre("raw"));
}

TEST(Decide, ARuleCannotMakeBackwardReadLess) {
  const Policy policy = with_rules(R"({"match":{"op":"*"},"codec":{"name":"sign"}})");
  const auto names = [&policy](std::string_view op, std::string_view operand) {
    return codec_names(policy.decide(EntryBuilder().use(op, operand, {64, 64}).build()));
  };
  EXPECT_THAT(names("aten::relu", "result"), testing::ElementsAre("sign"));
  EXPECT_THAT(names("aten::addmm", "mat1"), testing::ElementsAre("division"));
  EXPECT_THAT(names("torchvision::roi_align", "input"), testing::ElementsAre("two_valued"));
}

TEST(Decide, ABoundIsMorePreciseThanBits) {
  const Policy policy =
      with_rules(R"({"match":{"op":"aten::convolution"},"codec":{"name":"group_quant","bits":8}},)"
                 R"({"match":{"op":"aten::native_batch_norm"},)"
                 R"( "codec":{"name":"error_bounded_ratio","error_bound":0.1}})");
  const Decision d = policy.decide(EntryBuilder()
                                       .use("aten::convolution", "input", {4, 16, 28, 28})
                                       .use("aten::native_batch_norm", "input", {4, 16, 28, 28})
                                       .build());
  EXPECT_THAT(codec_names(d), testing::ElementsAre("error_bounded_ratio"));
}

TEST(Decide, OffTakesNothing) {
  const Policy policy = preset("off");
  EXPECT_FALSE(policy.enabled());
  EXPECT_TRUE(preset("division").enabled());
  EXPECT_EQ(policy.decide(EntryBuilder().use("aten::relu", "result", {64, 64}).build()).action,
            Action::keep);
}

TEST(Decide, WhatAPolicyMovesLeavesUnlessARuleForbidsIt) {
  using enum Decision::Offload;
  Choice choice;
  EntryBuilder entry;
  entry.use("aten::addmm", "mat1", {64, 256});
  const auto offload = [&](const char* rules) {
    const std::string text = std::string(R"({"version": 1, "policy": "budget", )") +
                             R"("budget": {"ratio": 8}, "offload": {"rescue": false})" + rules +
                             "}";
    EntryDescription description = entry.build();
    description.choice = &choice;
    return Policy(std::get<Settings>(parse_settings(text, "p.json"))).decide(description).offload;
  };
  EXPECT_EQ(offload(""), never);
  choice.offload = true;
  EXPECT_EQ(offload(""), always);
  EXPECT_EQ(offload(R"(, "rules": [{"match": {"op": "*"}, "keep": true, "offload": false}])"),
            never);
}

TEST(Decide, ARuleOfAFilesOwnLeavesOtherOperandsToThePreset) {
  const auto bits = [](const std::string& more) {
    const std::string text =
        R"({"version": 1, "policy": "division", "rules": [{"match": {"op": "a"}, "keep": true}])" +
        more + "}";
    return Policy(std::get<Settings>(parse_settings(text, "p.json")))
        .decide(EntryBuilder().use("aten::addmm", "mat1", {512, 768}).build())
        .candidates.at(0)
        .spec.bits;
  };
  EXPECT_EQ(bits(""), 4);
  EXPECT_EQ(bits(R"(, "preset_rules": false)"), 2);
}

}  // namespace
}  // namespace cinch::policy
