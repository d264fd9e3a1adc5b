// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/deciding/decisions.h"

namespace cinch::policy {
namespace {

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

TEST(Decide, SmallPlanesOfNormsHaveMoreBits) {
  const Policy groups = preset("default");
  const auto bits = [&](const char* op, Dims sizes) {
    const Decision d = groups.decide(EntryBuilder().use(op, "input", std::move(sizes)).build());
    EXPECT_THAT(codec_names(d), testing::ElementsAre("group_quant"));
    return d.candidates.at(0).spec.bits;
  };
  EXPECT_EQ(bits("aten::native_batch_norm", {32, 512, 9, 8}), 3);
  EXPECT_EQ(bits("aten::native_batch_norm", {32, 512, 8, 8}), 4) << "of low resolution";
  EXPECT_EQ(bits("aten::native_group_norm", {32, 512, 20, 16}), 3);
  EXPECT_EQ(bits("aten::native_group_norm", {32, 512, 16, 16}), 4);
  EXPECT_EQ(bits("aten::native_group_norm", {32, 512, 2, 2}), 4) << "channels share a mean";
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
    EXPECT_EQ(d.candidates[0].spec.bits, 8);
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

TEST(Decide, GroupsOfHeadsAreOfAFeatureEach) {
  const Policy policy = all_with(R"("group_quant","bits":4)");
  const char* op = "aten::_scaled_dot_product_flash_attention_for_cpu";
  const Dims head{2, 12, 128, 64};
  const Dims strides{128 * 768, 64, 768, 1};
  const Decision query = policy.decide(EntryBuilder().use(op, "query", head, strides).build());
  ASSERT_THAT(codec_names(query), testing::ElementsAre("group_quant"));
  EXPECT_EQ(query.candidates[0].what.layout.extent, (Extent{768, 1, 256}));
  const Decision output = policy.decide(EntryBuilder().use(op, "result0", head, strides).build());
  EXPECT_EQ(output.candidates[0].what.layout.extent[0], 1);
}

TEST(Decide, GroupsOfALinearLayersOutputAreOfAFeatureEach) {
  const Policy policy = all_with(R"("group_quant","bits":4)");
  const Dims sizes{4, 128, 96};
  EntryBuilder entry;
  entry.use("aten::silu", "self", sizes).of_linear_layer();
  EXPECT_EQ(policy.decide(entry.build()).candidates.at(0).what.layout.extent, (Extent{96, 1, 256}));
  entry.use("aten::mul", "self", sizes);
  EXPECT_EQ(policy.decide(entry.build()).candidates.at(0).what.layout.extent[0], 1)
      << "something has been added to it since";
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
