// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/weight_hits.h"

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr LayerKind linear = LayerKind::linear;

TEST(WeightHits, ErrorsThatArePassedOnCountForAllWeightsBefore) {
  const HitLayer layers[] = {{linear}, {linear}, {LayerKind::batch_norm}, {linear}, {linear}};
  const auto hits = weight_hits(layers);
  ASSERT_EQ(hits.size(), 5U);
  for (const int i : {0, 1, 3, 4}) EXPECT_NEAR(hits[i].own, 0.25, 1e-12) << i;
  EXPECT_NEAR(hits[2].passed, 0.5, 1e-12) << "two of four";
  EXPECT_NEAR(hits[4].passed, 0.75, 1e-12);
  EXPECT_NEAR(hits[0].passed, 0.25, 1e-12) << "never nothing";
}

TEST(WeightHits, ASixthIsLeftOfErrorsOfRows) {
  for (const LayerKind kind :
       {LayerKind::attention, LayerKind::elementwise, LayerKind::layer_norm, LayerKind::matmul}) {
    const HitLayer layers[] = {{linear}, {kind}};
    EXPECT_NEAR(weight_hits(layers)[1].passed, 1.0 / 6, 1e-12) << static_cast<int>(kind);
  }
}

TEST(WeightHits, FourFifthsGoByTheSizeOfGradients) {
  const HitLayer layers[] = {{linear, 3}, {linear, 1}};
  const auto hits = weight_hits(layers);
  EXPECT_NEAR(hits[0].own, 0.8 * 0.75 + 0.2 * 0.5, 1e-12);
  EXPECT_NEAR(hits[1].own, 0.8 * 0.25 + 0.2 * 0.5, 1e-12);
}

TEST(WeightHits, ABranchReachesWhatIsBeforeItThinned) {
  const HitLayer layers[] = {
      {linear}, {linear}, {LayerKind::layer_norm, 0, 0.1}, {linear}, {LayerKind::batch_norm}};
  const auto hits = weight_hits(layers);
  EXPECT_NEAR(hits[4].passed, 1.0 / 3 + 0.1 * 2 / 3, 1e-12);
}

TEST(WeightHits, ModelsWithoutWeightsHaveHitsToo) {
  const HitLayer layers[] = {{LayerKind::batch_norm}};
  EXPECT_EQ(weight_hits(layers).front().passed, 1);
  EXPECT_TRUE(weight_hits({}).empty());
}

}  // namespace
}  // namespace cinch::policy
