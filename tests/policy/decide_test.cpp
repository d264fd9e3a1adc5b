// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy.h"
#include "tests/policy/entry_builder.h"

namespace cinch::policy {
namespace {

using Action = Decision::Action;
using Type = codecs::ElementType;
using SignedValues = codecs::SignedValues;
using Extent = std::array<std::int64_t, 3>;

Policy preset(std::string_view name) {
  return Policy(std::get<Settings>(load_settings(name)));
}

/// DIVISION with these rules alone.
Policy with_rules(const std::string& rules) {
  const auto result = parse_settings(
      R"({"version":1,"policy":"division","preset_rules":false,"rules":[)" + rules + "]}", "test");
  if (const auto* error = std::get_if<PolicyError>(&result)) ADD_FAILURE() << error->to_string();
  return Policy(std::get<Settings>(result));
}

Decision division(const EntryBuilder& entry) {
  return preset("division").decide(entry.build());
}
Decision lossless(const EntryBuilder& entry) {
  return preset("lossless").decide(entry.build());
}

/// A rule that gives every operand this codec.
Policy all_with(const std::string& codec) {
  return with_rules(R"({"match":{"op":"*"},"codec":{"name":)" + codec + "}}");
}

std::vector<std::string> codec_names(const Decision& decision) {
  std::vector<std::string> names;
  for (const auto& candidate : decision.candidates) names.push_back(candidate.spec.name);
  return names;
}

TEST(Decide, ConvolutionInputBecomesPlanes) {
  const Decision d = division(EntryBuilder().use("aten::convolution", "input", {4, 16, 28, 28}));
  ASSERT_EQ(d.action, Action::encode);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  const auto& spec = d.candidates[0].spec;
  const auto& what = d.candidates[0].what;
  EXPECT_EQ(spec.bits, 2);
  EXPECT_EQ(spec.block, 8);
  EXPECT_FALSE(spec.with_sign);
  EXPECT_EQ(what.type, Type::float32);
  EXPECT_EQ(what.layout.extent, (Extent{1, 28, 28}));
  EXPECT_EQ(what.layout.planes(), 64);
  EXPECT_TRUE(what.layout.is_contiguous());
}

TEST(Decide, ReluOutputThatAConvolutionReadsKeepsItsSigns) {
  const Decision d = division(EntryBuilder()
                                  .use("aten::relu_", "result", {4, 16, 28, 28})
                                  .use("aten::convolution", "input", {4, 16, 28, 28}));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_TRUE(d.candidates[0].spec.with_sign);
  EXPECT_EQ(d.candidates[0].spec.signed_values, SignedValues::non_negative);
  EXPECT_EQ(d.candidates[0].spec.bits, 2);
}

TEST(Decide, ReluOfAPartProvesNothingAboutTheRest) {
  const Decision d = division(EntryBuilder()
                                  .use("aten::convolution", "input", {4, 16, 28, 28})
                                  .use("aten::relu_", "result", {2, 16, 28, 28}));
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  EXPECT_TRUE(d.candidates[0].spec.with_sign);
  EXPECT_EQ(d.candidates[0].spec.signed_values, SignedValues::any);
}

TEST(Decide, LeakySignsAreHeldBesideValues) {
  const Decision d = division(EntryBuilder()
                                  .use("aten::leaky_relu_", "result", {4, 16, 28, 28})
                                  .use("aten::convolution", "input", {4, 16, 28, 28}));
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  EXPECT_TRUE(d.candidates[0].spec.with_sign);
  EXPECT_EQ(d.candidates[0].spec.signed_values, SignedValues::any);
}

TEST(Decide, ValuesWhoseSignsAreReadAgreeWithThem) {
  EntryBuilder entry;
  entry.use("aten::_prelu_kernel", "self", {4, 16, 28, 28});
  const Decision d = division(entry);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  EXPECT_EQ(d.candidates[0].spec.bits, 4);
  EXPECT_TRUE(d.candidates[0].spec.with_sign);
  EXPECT_EQ(d.candidates[0].spec.signed_values, SignedValues::agreeing);
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
  EXPECT_THAT(codec_names(division(EntryBuilder().use("aten::_prelu_kernel", "weight", {64, 64}))),
              testing::ElementsAre("exponent_pack"));
  // One storage serves whoever else reads its signs or values.
  entry.use("aten::leaky_relu", "self", {4, 16, 28, 28})
      .use("aten::convolution", "input", {4, 16, 28, 28});
  EXPECT_EQ(division(entry).candidates[0].spec.signed_values, SignedValues::agreeing);
  const Decision bounded =
      all_with(R"("error_bounded_ratio","error_bound":0.1)").decide(entry.build());
  ASSERT_THAT(codec_names(bounded), testing::ElementsAre("error_bounded_ratio"));
  EXPECT_FALSE(bounded.candidates[0].spec.with_sign);
}

TEST(Decide, SignsAloneTakeOneBit) {
  for (const auto& decide : {division, lossless}) {
    const Decision d = decide(EntryBuilder().use("aten::relu", "result", {100, 100}));
    ASSERT_EQ(d.action, Action::encode);
    EXPECT_THAT(codec_names(d), testing::ElementsAre("sign"));
    EXPECT_EQ(d.candidates[0].what.layout.elements(), 10000);
  }
}

TEST(Decide, IntervalsAloneTakeOneBit) {
  for (const auto& decide : {division, lossless}) {
    const Decision d =
        decide(EntryBuilder().use("aten::hardtanh_", "self", {100, 100}).bounds(-1, 2));
    ASSERT_THAT(codec_names(d), testing::ElementsAre("interval"));
    EXPECT_EQ(d.candidates[0].spec.lower, -1);
    EXPECT_EQ(d.candidates[0].spec.upper, 2);
    EXPECT_EQ(d.candidates[0].what.layout.elements(), 10000);
    const Decision unknown = decide(EntryBuilder().use("aten::hardtanh", "self", {100, 100}));
    EXPECT_THAT(codec_names(unknown), testing::ElementsAre("two_valued", "exponent_pack"));
    const Decision doubles = decide(EntryBuilder()
                                        .use("aten::hardtanh", "self", {100, 100})
                                        .bounds(-1, 2)
                                        .typed(Type::float64));
    EXPECT_THAT(codec_names(doubles), testing::ElementsAre("two_valued", "exponent_pack"));
  }
}

TEST(Decide, AnIntervalBesideAnythingElseIsNeverApproximated) {
  const Dims sizes = {4, 16, 28, 28};
  const auto beside = [&](auto decide, std::string_view op, std::string_view operand) {
    EntryBuilder entry;
    entry.use("aten::hardtanh", "self", sizes).bounds(0, 6).use(op, operand, sizes);
    if (op == "aten::hardtanh") entry.bounds(0, 1);
    return decide(entry);
  };
  for (const auto& [op, operand] : {std::pair{"aten::convolution", "input"},
                                    {"aten::relu", "result"},
                                    {"aten::hardtanh", "self"}}) {
    EXPECT_THAT(codec_names(beside(division, op, operand)), testing::ElementsAre("exponent_pack"));
    const auto kept = [](const EntryBuilder& entry) {
      return with_rules("").decide(entry.build());
    };
    EXPECT_EQ(beside(kept, op, operand).action, Action::keep) << op;
  }
  EXPECT_THAT(codec_names(beside(division, "aten::avg_pool2d", "self")),
              testing::ElementsAre("interval"));
  EXPECT_THAT(codec_names(beside(lossless, "aten::convolution", "input")),
              testing::ElementsAre("exponent_pack"));
}

TEST(Decide, WhatBackwardNeverReadsIsDropped) {
  for (const auto& decide : {division, lossless}) {
    EXPECT_EQ(decide(EntryBuilder().use("aten::avg_pool2d", "self", {4, 16, 28, 28})).action,
              Action::drop);
  }
  const Decision both = division(EntryBuilder()
                                     .use("aten::max_pool2d_with_indices", "self", {4, 16, 28, 28})
                                     .use("aten::relu", "result", {4, 16, 28, 28}));
  EXPECT_THAT(codec_names(both), testing::ElementsAre("sign"));
}

TEST(Decide, StatisticsAndUnknownOperandsStayExact) {
  EntryBuilder statistics;
  statistics.use("aten::native_batch_norm", "result1", {4096});
  const Decision exact = with_rules("").decide(statistics.build());
  EXPECT_EQ(exact.action, Action::keep);
  EXPECT_EQ(exact.reason, "has to be exact");
  EXPECT_THAT(codec_names(division(statistics)), testing::ElementsAre("exponent_pack"));
  const Decision beside = division(EntryBuilder()
                                       .use("aten::addmm", "mat1", {64, 256})
                                       .use("aten::_log_softmax", "result", {64, 256}));
  EXPECT_THAT(codec_names(beside), testing::ElementsAre("exponent_pack"));
  EXPECT_EQ(
      division(EntryBuilder().use("aten::sort", "result1", {64, 256}).typed(Type::int64)).action,
      Action::keep);
}

TEST(Decide, LogProbabilitiesAreApproximatedOnlyWhereARuleNamesTheirOperator) {
  EntryBuilder entry;
  entry.use("aten::_log_softmax", "result", {64, 2048})
      .use("aten::nll_loss_forward", "self", {64, 2048});
  const std::string codec = R"("codec":{"name":"group_quant","bits":8}})";
  for (const std::string op : {"*", "aten::*", "aten::_*softmax", "aten::_log_softma?"}) {
    const Decision d =
        with_rules(R"({"match":{"op":")" + op + "\"}," + codec).decide(entry.build());
    EXPECT_EQ(d.reason, "has to be exact") << op;
  }
  const Decision named =
      with_rules(R"({"match":{"op":"aten::_log_softmax"},)" + codec).decide(entry.build());
  EXPECT_THAT(codec_names(named), testing::ElementsAre("group_quant"));
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("exponent_pack"));
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
}

TEST(Decide, LogProbabilitiesOfManyClassesTakeEightBitsInWholeWords) {
  const Policy policy = preset("default");
  for (const std::int64_t tokens : {16 * 1024, 16 * 1023}) {
    const Decision d =
        policy.decide(EntryBuilder().use("aten::_log_softmax", "result", {tokens, 50257}).build());
    ASSERT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    EXPECT_EQ(d.candidates[0].spec.bits, 8);
    EXPECT_EQ(d.candidates[0].what.layout.plane_size() % 8, 0);
    EXPECT_TRUE(d.candidates[0].what.layout.is_contiguous());
  }
  // Where classes are few, one is often certain; further dimensions may be classes too.
  for (const Dims& sizes : {Dims{4096, 256}, {8, 21, 2048}}) {
    const Decision d =
        policy.decide(EntryBuilder().use("aten::_log_softmax", "result", sizes).build());
    EXPECT_THAT(codec_names(d), testing::ElementsAre("exponent_pack"));
  }
}

TEST(Decide, OfWhatALikelihoodIsTakenFromOnlyTheSizeIsHeld) {
  EntryBuilder cast;  // under autocast a storage of its own
  cast.use("aten::nll_loss_forward", "self", {64, 2048});
  EXPECT_EQ(lossless(cast).action, Action::drop);
}

TEST(Decide, UnknownFloatsMayBeMasks) {
  EntryBuilder entry;
  entry.use("torchvision::roi_align", "input", {64, 256});
  const Decision d = with_rules("").decide(entry.build());
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_THAT(codec_names(d), testing::ElementsAre("two_valued"));
  EXPECT_EQ(d.reason, "not known to tolerate approximation");
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("two_valued", "exponent_pack"));
}

TEST(Decide, FactorsAreMasksOrApproximated) {
  EntryBuilder entry;
  entry.use("aten::mul", "other", {64, 256});
  const Decision d = division(entry);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("two_valued", "group_quant"));
  EXPECT_EQ(d.candidates[1].spec.bits, 4);
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("two_valued", "exponent_pack"));
  EXPECT_THAT(codec_names(with_rules("").decide(entry.build())),
              testing::ElementsAre("two_valued"));
  // One value a row may be a statistic.
  const Decision row = division(EntryBuilder().use("aten::mul", "other", {4096, 1}));
  EXPECT_THAT(codec_names(row), testing::ElementsAre("two_valued", "exponent_pack"));
  // So may one a channel. An error of a gate of squeeze and excitation is one of a whole plane.
  const Decision gate = division(EntryBuilder().use("aten::mul", "other", {64, 256, 1, 1}));
  EXPECT_THAT(codec_names(gate), testing::ElementsAre("two_valued", "exponent_pack"));
  const Decision by_rule =
      with_rules(R"({"match":{"op":"aten::mul"},"codec":{"name":"group_quant","bits":8}})")
          .decide(entry.build());
  EXPECT_THAT(codec_names(by_rule), testing::ElementsAre("two_valued", "group_quant"));
}

TEST(Decide, AnglesGetABoundOfTheirAbsoluteError) {
  EntryBuilder entry;
  entry.use("aten::sin", "self", {64, 256}).use("aten::cos", "self", {64, 256});
  const Decision d = division(entry);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("fixed_point"));
  EXPECT_EQ(d.candidates[0].spec.error_bound, 0.25F) << "4 bits of a range of 8";
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
  EXPECT_EQ(with_rules("").decide(entry.build()).reason, "no rule chooses a codec");
  const Decision own =
      all_with(R"("error_bounded_ratio","error_bound":0.01)").decide(entry.build());
  ASSERT_THAT(codec_names(own), testing::ElementsAre("error_bounded_ratio"));
  EXPECT_EQ(own.candidates[0].spec.error_bound, 0.01F);
  entry.use("aten::mul", "self", {64, 256});
  EXPECT_THAT(codec_names(all_with(R"("group_quant")").decide(entry.build())),
              testing::Contains("group_quant"));
  // The bound says nothing of what another operator may read.
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("exponent_pack"));
}

TEST(Decide, TargetsMayBeMasks) {
  const Decision d =
      division(EntryBuilder().use("aten::binary_cross_entropy", "target", {64, 256}));
  EXPECT_THAT(codec_names(d), testing::ElementsAre("two_valued", "exponent_pack"));
}

TEST(Decide, BooleansBecomeBits) {
  for (const auto& decide : {division, lossless}) {
    const Decision d = decide(
        EntryBuilder().use("aten::native_dropout", "result1", {64, 256}).typed(Type::boolean));
    EXPECT_THAT(codec_names(d), testing::ElementsAre("two_valued"));
  }
}

TEST(Decide, PoolingIndicesBecomeWindowPositions) {
  EntryBuilder entry;
  entry.use("aten::max_pool2d_with_indices", "result1", {4, 16, 14, 14}).typed(Type::int64);
  EXPECT_EQ(division(entry).action, Action::keep) << "extent unknown";
  entry.index_extent({1, 28, 28});
  for (const auto& decide : {division, lossless}) {
    const Decision d = decide(entry);
    ASSERT_THAT(codec_names(d), testing::ElementsAre("window_index"));
    EXPECT_EQ(d.candidates[0].what.index_extent, (Extent{1, 28, 28}));
    EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 14, 14}));
  }
}

TEST(Decide, ChannelsLastKeepsLogicalPlanes) {
  const Dims sizes{4, 16, 28, 28};
  const Decision d =
      division(EntryBuilder().use("aten::convolution", "input", sizes, channels_last(sizes)));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 28, 28}));
  EXPECT_EQ(d.candidates[0].what.layout.inner_stride, 1);
}

TEST(Decide, TinyPlanesBecomeFlatRowsOfFourBits) {
  const Decision d = division(EntryBuilder().use("aten::convolution", "input", {16, 512, 2, 2}));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].spec.bits, 4);
  EXPECT_EQ(d.candidates[0].spec.block, 256);
  EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 1, 256}));
  EXPECT_EQ(d.candidates[0].what.layout.elements(), 16 * 512 * 4);
}

TEST(Decide, BatchNormOverFeaturesHasRows) {
  const Decision d = division(EntryBuilder().use("aten::native_batch_norm", "input", {64, 1024}));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 1, 1024}));
}

TEST(Decide, GroupsThatMixABatchNormsChannelsHaveMoreBits) {
  const Policy groups = preset("default");
  const auto bits = [&](const char* op, Dims sizes) {
    const Decision d = groups.decide(EntryBuilder().use(op, "input", std::move(sizes)).build());
    EXPECT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    return d.candidates.at(0).spec.bits;
  };
  EXPECT_EQ(bits("aten::native_batch_norm", {32, 512, 8, 8}), 3);
  EXPECT_EQ(bits("aten::cudnn_batch_norm", {32, 512, 7, 7}), 6);
  EXPECT_EQ(bits("aten::native_batch_norm", {32, 512, 2, 2}), 8);
  EXPECT_EQ(bits("aten::native_batch_norm", {64, 1024}), 8) << "no planes";
  EXPECT_EQ(bits("aten::convolution", {32, 512, 2, 2}), 3) << "its means are used";
}

TEST(Decide, LinearInputsHaveRowsOfFeatures) {
  const Decision d = division(EntryBuilder().use("aten::addmm", "mat1", {512, 768}));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].spec.bits, 4);
  EXPECT_EQ(d.candidates[0].spec.block, 64);
  EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 1, 768}));
}

TEST(Decide, HeadsOfAFusedProjectionAreJoinedToGroups) {
  const Dims head{2, 12, 128, 64};
  const Dims strides{128 * 2304, 64, 2304, 1};
  const char* op = "aten::_scaled_dot_product_flash_attention_for_cpu";
  EntryBuilder entry;
  entry.use(op, "query", head, strides, 0)
      .use(op, "key", head, strides, 768)
      .use(op, "value", head, strides, 1536)
      .bytes(2 * 128 * 2304 * 4);
  for (const bool with_cover : {false, true}) {
    if (with_cover) entry.cover({2, 128, 2304});
    const Decision d = division(entry);
    ASSERT_EQ(d.action, Action::encode);
    EXPECT_EQ(d.candidates[0].spec.bits, 4);
    EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 1, 256}));
    EXPECT_EQ(d.candidates[0].what.layout.elements(), 2 * 128 * 2304);
  }
}

TEST(Decide, TheCoverGivesPlanesWhenOnlyPartsAreUsed) {
  const Decision d = division(EntryBuilder()
                                  .use("aten::convolution", "input", {2, 16, 28, 28})
                                  .cover({4, 16, 28, 28})
                                  .bytes(4 * 16 * 28 * 28 * 4));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{1, 28, 28}));
  EXPECT_EQ(d.candidates[0].what.layout.planes(), 64);
}

TEST(Decide, PaddedStoragesAreCutFlat) {
  const Decision d = division(
      EntryBuilder().use("aten::convolution", "input", {2, 16, 28, 28}).bytes(32 * 784 * 4 + 64));
  ASSERT_EQ(d.action, Action::encode);
  EXPECT_EQ(d.candidates[0].what.layout.elements(), 32 * 784 + 16);
}

TEST(Decide, OddStoragesAreKeptOrTakenAsBytes) {
  EntryBuilder ragged;
  ragged.use("aten::addmm", "mat1", {64, 64}).bytes(64 * 64 * 4 + 1);
  EXPECT_EQ(division(ragged).reason, "storage that is no whole number of elements");
  EXPECT_EQ(lossless(ragged).action, Action::keep);
  const Decision raw = all_with(R"("raw")").decide(ragged.build());
  ASSERT_THAT(codec_names(raw), testing::ElementsAre("raw"));
  EXPECT_EQ(raw.candidates[0].what.type, Type::other);
  EXPECT_EQ(raw.candidates[0].what.layout.elements(), 64 * 64 * 4 + 1);

  EntryBuilder mixed;
  mixed.use("aten::addmm", "mat1", {64, 64})
      .use("aten::mm", "self", {64, 128})
      .typed(Type::bfloat16);
  EXPECT_EQ(division(mixed).reason, "one storage of several element types");
}

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

TEST(Decide, ExactValuesServeSignsToo) {
  const Decision d = division(
      EntryBuilder().use("aten::relu", "result", {64, 64}).use("aten::igamma", "other", {64, 64}));
  EXPECT_THAT(codec_names(d), testing::ElementsAre("exponent_pack"));
}

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

TEST(Decide, ActivationsWithoutARuleAreKept) {
  const Decision d =
      with_rules("").decide(EntryBuilder().use("aten::gelu", "self", {64, 256}).build());
  EXPECT_EQ(d.action, Action::keep);
  EXPECT_EQ(d.reason, "no rule chooses a codec");
}

TEST(Decide, LosslessSplitsFloatsAndKeepsTheRest) {
  const Decision d = lossless(EntryBuilder()
                                  .use("aten::relu", "result", {4, 16, 28, 28})
                                  .use("aten::convolution", "input", {4, 16, 28, 28}));
  EXPECT_THAT(codec_names(d), testing::ElementsAre("exponent_pack"));
  EXPECT_EQ(d.candidates[0].what.layout.elements(), 4 * 16 * 28 * 28);
  const Decision wide =
      lossless(EntryBuilder().use("aten::gelu", "self", {64}).typed(Type::other).bytes(512));
  EXPECT_EQ(wide.action, Action::keep);
}

TEST(Decide, FloatsOfDevicesAreHeldAsThoseOfTheHost) {
  EntryBuilder entry;
  entry.use("aten::gelu", "self", {64, 256}).on_device();
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
  const Decision careful =
      preset("division")
          .decide(
              EntryBuilder().use("aten::convolution", "input", {4, 16, 28, 28}).on_device().build(),
              99);
  EXPECT_THAT(codec_names(careful), testing::ElementsAre("exponent_pack"));
  EntryBuilder on_host;
  on_host.use("aten::gelu", "self", {64, 256});
  EXPECT_THAT(codec_names(all_with(R"("exponent_pack")").decide(on_host.build())),
              testing::ElementsAre("exponent_pack"));
}

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

TEST(Decide, GroupsAreOfSamples) {
  const Policy policy = all_with(R"("group_quant","bits":4,"group":128)");
  for (const Dims& strides : {contiguous({4, 16, 9, 7}), channels_last({4, 16, 9, 7})}) {
    const Decision d = policy.decide(
        EntryBuilder().use("aten::convolution", "input", {4, 16, 9, 7}, strides).build());
    ASSERT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    EXPECT_EQ(d.candidates[0].spec.bits, 4);
    EXPECT_EQ(d.candidates[0].spec.group, 128);
    EXPECT_EQ(d.candidates[0].what.layout.planes(), 4);
    EXPECT_EQ(d.candidates[0].what.layout.extent, (Extent{16, 9, 7}));
  }
  const Decision linear =
      policy.decide(EntryBuilder().use("aten::addmm", "mat1", {640, 768}).build());
  EXPECT_EQ(linear.candidates[0].what.layout.plane_size() % 128, 0);
}

TEST(Decide, CodecsByChannelSeeChannels) {
  for (const char* codec : {R"("blpa","bits":4)", R"("fixed_point","error_bound":0.01)"}) {
    const Policy policy = all_with(codec);
    const Decision maps =
        policy.decide(EntryBuilder().use("aten::convolution", "input", {4, 16, 28, 28}).build());
    ASSERT_EQ(maps.candidates.size(), 1U) << codec;
    EXPECT_EQ(maps.candidates[0].what.layout.channels(), 16);
    const Decision rows =
        policy.decide(EntryBuilder().use("aten::addmm", "mat1", {640, 768}).build());
    EXPECT_EQ(rows.candidates[0].what.layout.channels(), 768);
    EXPECT_EQ(rows.candidates[0].what.layout.outer, 640);
  }
}

TEST(Decide, SignsBesideApproximateValues) {
  EntryBuilder relu_and_conv;
  relu_and_conv.use("aten::relu", "result", {4, 16, 28, 28})
      .use("aten::convolution", "input", {4, 16, 28, 28});
  const Policy groups =
      with_rules(R"({"match":{"op":"aten::convolution"},"codec":{"name":"group_quant"}})");
  EXPECT_TRUE(groups.decide(relu_and_conv.build()).candidates[0].spec.with_sign);

  EntryBuilder leaky;
  leaky.use("aten::leaky_relu", "self", {4, 16, 28, 28})
      .use("aten::convolution", "input", {4, 16, 28, 28});
  const Decision beside = groups.decide(leaky.build());
  ASSERT_THAT(codec_names(beside), testing::ElementsAre("group_quant"));
  EXPECT_EQ(beside.candidates[0].spec.signed_values, SignedValues::any);
  const Policy bounded = with_rules(
      R"({"match":{"op":"aten::convolution"},"codec":{"name":"error_bounded_ratio","error_bound":0.1}})");
  const Decision d = bounded.decide(leaky.build());
  ASSERT_THAT(codec_names(d), testing::ElementsAre("error_bounded_ratio"));
  EXPECT_FALSE(d.candidates[0].spec.with_sign);
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

TEST(Decide, CodecsAcceptTheirDescriptions) {
  const Dims shape{4, 16, 28, 28};
  EntryBuilder entries[11];
  entries[0].use("aten::relu", "result", shape);
  entries[1].use("aten::mul", "other", shape);
  entries[2].use("x", "y", shape).typed(Type::boolean);
  entries[3].use("aten::max_pool2d_with_indices", "result1", shape).typed(Type::int64);
  entries[3].index_extent({1, 56, 56});
  entries[4].use("aten::gelu", "self", {64}).typed(Type::other).bytes(512);
  entries[5].use("aten::relu", "result", shape).use("aten::convolution", "input", shape);
  entries[6].use("aten::leaky_relu", "self", shape).use("aten::convolution", "input", shape);
  entries[7].use("aten::_prelu_kernel", "self", shape);
  entries[8].use("aten::relu", "result", shape).typed(Type::float64);
  entries[8].use("aten::convolution", "input", shape).typed(Type::float64);
  entries[9].use("aten::_prelu_kernel", "self", shape).typed(Type::float64);
  entries[10].use("aten::bmm", "self", {8, 64, 64}).typed(Type::float64).complex();
  for (const EntryBuilder& entry : entries) {
    for (const auto& decide : {division, lossless}) {
      for (const auto& candidate : decide(entry).candidates) {
        const auto& [spec, what] = std::tie(candidate.spec, candidate.what);
        const auto codec = codecs::make_codec(spec);
        ASSERT_NE(codec, nullptr) << spec.name;
        EXPECT_TRUE(codec->accepts(what)) << spec.name;
      }
    }
  }
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

TEST(Decide, NothingToDecide) {
  EXPECT_EQ(preset("division").decide({}).action, Action::keep);
}

TEST(Decide, EveryLayoutOverRandomShapesCoversTheStorage) {
  const Policy policy = preset("division");
  for (std::int64_t n = 1; n < 40; ++n) {
    for (std::int64_t edge = 1; edge < 12; ++edge) {
      for (const auto* op : {"aten::convolution", "aten::native_layer_norm"}) {
        const Dims sizes{2, n, edge, edge};
        const Decision d = policy.decide(EntryBuilder().use(op, "input", sizes).build());
        ASSERT_EQ(d.action, Action::encode);
        const auto& spec = d.candidates[0].spec;
        const auto& what = d.candidates[0].what;
        EXPECT_EQ(what.layout.elements(), count(sizes));
        EXPECT_TRUE(codecs::make_codec(spec)->accepts(what));
      }
    }
  }
}

}  // namespace
}  // namespace cinch::policy
