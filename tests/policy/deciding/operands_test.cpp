// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/deciding/decisions.h"

namespace cinch::policy {
namespace {

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
        decide(EntryBuilder().use("aten::hardtanh_", "self", {100, 100}).numbers(-1, 2));
    ASSERT_THAT(codec_names(d), testing::ElementsAre("interval"));
    EXPECT_EQ(d.candidates[0].spec.lower, -1);
    EXPECT_EQ(d.candidates[0].spec.upper, 2);
    EXPECT_EQ(d.candidates[0].what.layout.elements(), 10000);
    const Decision unknown = decide(EntryBuilder().use("aten::hardtanh", "self", {100, 100}));
    EXPECT_THAT(codec_names(unknown), testing::ElementsAre("two_valued", "exponent_pack"));
    const Decision doubles = decide(EntryBuilder()
                                        .use("aten::hardtanh", "self", {100, 100})
                                        .numbers(-1, 2)
                                        .typed(Type::float64));
    EXPECT_THAT(codec_names(doubles), testing::ElementsAre("two_valued", "exponent_pack"));
  }
}

TEST(Decide, ValuesBesideAnIntervalKeepTheirSidesOfItsBounds) {
  const Dims sizes = {4, 16, 28, 28};
  EntryBuilder entry;
  entry.use("aten::hardtanh", "self", sizes).numbers(0, 6).use("aten::convolution", "input", sizes);
  const Decision d = division(entry);
  ASSERT_THAT(codec_names(d), testing::ElementsAre("division"));
  const codecs::CodecSpec& spec = d.candidates[0].spec;
  EXPECT_TRUE(spec.with_bounds && !spec.closed);
  EXPECT_EQ(std::pair(spec.lower, spec.upper), std::pair(0.0F, 6.0F));
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
  const Decision only = division(EntryBuilder()
                                     .use("aten::hardtanh", "self", sizes)
                                     .numbers(0, 6)
                                     .use("aten::avg_pool2d", "self", sizes));
  EXPECT_THAT(codec_names(only), testing::ElementsAre("interval"));
  const auto typed = [&](Type type) {
    EntryBuilder of;
    of.use("aten::hardtanh", "self", sizes).numbers(0, 6).typed(type);
    return codec_names(division(of.use("aten::convolution", "input", sizes).typed(type)));
  };
  EXPECT_THAT(typed(Type::bfloat16), testing::ElementsAre("division"));
  EXPECT_THAT(typed(Type::float64), testing::Not(testing::Contains("division")));
}

TEST(Decide, AnotherIntervalsMaskIsNeverApproximated) {
  const Dims sizes = {4, 16, 28, 28};
  const auto beside = [&](auto decide, float lower, float upper, std::string_view op) {
    EntryBuilder entry;
    entry.use("aten::hardtanh", "self", sizes).numbers(0, 6).use(op, "self", sizes);
    return decide(entry.numbers(lower, upper).use("aten::convolution", "input", sizes));
  };
  const auto kept = [](const EntryBuilder& entry) { return with_rules("").decide(entry.build()); };
  for (const auto& [lower, upper, op] : {std::tuple{0.0F, 1.0F, "aten::hardtanh"},
                                         {-1.0F, 6.0F, "aten::hardtanh"},
                                         {0.0F, 6.0F, "aten::clamp"}}) {
    EXPECT_THAT(codec_names(beside(division, lower, upper, op)),
                testing::ElementsAre("exponent_pack"));
    EXPECT_EQ(beside(kept, lower, upper, op).action, Action::keep);
  }
  EXPECT_THAT(codec_names(beside(division, 0, 6, "aten::hardtanh")),
              testing::ElementsAre("division"));
}

/// gpt-oss' gate: one half of a storage is clamped from above, the other from both sides, and what
/// is computed from both needs its values.
TEST(Decide, ValuesServeSeveralIntervalsWithCommonBounds) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const Dims sizes = {64, 256};
  EntryBuilder entry;
  entry.use("aten::clamp", "self", sizes).numbers(kNone, 7);
  entry.use("aten::clamp", "self", sizes).numbers(-7, 7);
  EXPECT_THAT(codec_names(division(entry)), testing::ElementsAre("exponent_pack"));
  entry.use("aten::clamp", "self", sizes).numbers(-7, 7).for_recipe();
  const Decision d = division(entry);
  ASSERT_THAT(codec_names(d), testing::Contains("group_quant"));
  const codecs::CodecSpec& spec = d.candidates.back().spec;
  EXPECT_TRUE(spec.with_bounds && spec.closed);
  EXPECT_EQ(std::pair(spec.lower, spec.upper), std::pair(-7.0F, 7.0F));
  EXPECT_THAT(codec_names(lossless(entry)), testing::ElementsAre("exponent_pack"));
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

TEST(Decide, OperandsOfAttentionTakeFewBitsOnlyWhereItIsComputedAnew) {
  const Policy policy = preset("default");
  for (const auto* op :
       {"aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention"}) {
    for (const auto* operand : {"query", "key", "value"}) {
      EntryBuilder exact;
      exact.use(op, operand, {2, 4, 64, 64});
      EXPECT_EQ(policy.decide(exact.build()).candidates[0].spec.bits, 8);
      EntryBuilder anew;
      anew.use(op, operand, {2, 4, 64, 64}).recomputed();
      EXPECT_EQ(policy.decide(anew.build()).candidates[0].spec.bits, 4);
    }
  }
}

TEST(Decide, AVectorASampleHasMoreBitsThanMaps) {
  const Policy policy = preset("default");
  const auto bits = [&](Dims sizes) {
    const Decision d =
        policy.decide(EntryBuilder().use("aten::silu", "self", std::move(sizes)).build());
    return d.candidates.at(0).spec.bits;
  };
  EXPECT_EQ(bits({128, 256}), 6);
  EXPECT_EQ(bits({64, 32, 16, 16}), 3);
  EXPECT_EQ(bits({129, 256}), 3);  // tokens
}

TEST(Decide, APresetsRuleForPowersIsForWholeOnes) {
  const Policy policy = preset("default");
  for (const float exponent : {2.0F, 3.0F, 0.5F, -1.0F, 0.0F}) {
    EntryBuilder entry;
    entry.use("aten::pow", "self", {8, 64, 64}).raised(exponent);
    const bool is_whole = exponent >= 1;
    EXPECT_THAT(codec_names(policy.decide(entry.build())),
                testing::ElementsAre("two_valued", is_whole ? "group_quant" : "exponent_pack"));
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

TEST(Decide, ExactValuesServeSignsToo) {
  const Decision d = division(
      EntryBuilder().use("aten::relu", "result", {64, 64}).use("aten::igamma", "other", {64, 64}));
  EXPECT_THAT(codec_names(d), testing::ElementsAre("exponent_pack"));
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

TEST(Decide, DitheredCodesOfAReluHoldItsSigns) {
  const auto spec = [](EntryBuilder& entry, int bits, const char* others = "") {
    const Policy policy =
        with_rules(R"({"match":{"op":"aten::convolution"},"codec":{"name":"group_quant","bits":)" +
                   std::to_string(bits) + others + "}}");
    const Decision d = policy.decide(entry.build());
    EXPECT_EQ(d.candidates.back().spec.name, "group_quant");
    EXPECT_NE(d.candidates.back().spec.with_sign, d.candidates.back().spec.zero_code);
    EXPECT_TRUE(codecs::make_codec(d.candidates.back().spec)->accepts(d.candidates.back().what));
    return d.candidates.back().spec;
  };
  constexpr auto dithered = R"(,"dither":"subtractive")";
  EntryBuilder relu;
  relu.use("aten::relu", "result", {4, 16, 28, 28})
      .use("aten::convolution", "input", {4, 16, 28, 28});
  EXPECT_TRUE(spec(relu, 3, dithered).zero_code);
  EXPECT_EQ(spec(relu, 3, dithered).bits, 3);
  EXPECT_FALSE(spec(relu, 2, dithered).zero_code) << "one step of three less";
  EXPECT_FALSE(spec(relu, 3).zero_code) << "as ActNN has it";
  EXPECT_TRUE(spec(relu.on_device(), 3, dithered).zero_code);
  EntryBuilder leaky;
  leaky.use("aten::leaky_relu", "self", {4, 16, 28, 28})
      .use("aten::convolution", "input", {4, 16, 28, 28});
  EXPECT_FALSE(spec(leaky, 3, dithered).zero_code) << "there are elements below 0";
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

TEST(Decide, NothingToDecide) {
  EXPECT_EQ(preset("division").decide({}).action, Action::keep);
}

}  // namespace
}  // namespace cinch::policy
