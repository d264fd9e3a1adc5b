// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/batch_size.h"

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr double MiB = 1 << 20;

StepMemory step() {
  // 100 MiB before the first forward; 8 parameters, their gradients and 16 of the optimizer's; 320
  // of activations and 32 that operators work on.
  StepMemory step;
  step.batch = 32;
  step.before_bytes = 100 * MiB;
  step.peak_bytes = (100 + 8 + 320 + 32) * MiB;
  step.parameter_bytes = 8 * MiB;
  step.optimizer_bytes = 16 * MiB;
  step.raw_bytes = step.stored_bytes = 320 * MiB;
  return step;
}

TEST(BatchSize, SplitsWhatAStepNeeded) {
  const MemoryNeed need = memory_need(step());
  EXPECT_DOUBLE_EQ(need.fixed, (100 + 8 + 16) * MiB);
  EXPECT_DOUBLE_EQ(need.per_sample, 11 * MiB);
  // The state of the optimizer comes besides what the first step needed.
  EXPECT_DOUBLE_EQ(need.at(32), step().peak_bytes + 16 * MiB);
}

TEST(BatchSize, CompressionLeavesTheRestAsItIs) {
  StepMemory compressed = step();
  compressed.stored_bytes = 32 * MiB;
  const MemoryNeed need = memory_need(compressed);
  EXPECT_DOUBLE_EQ(need.fixed, 124 * MiB);
  EXPECT_DOUBLE_EQ(need.per_sample, 2 * MiB);
}

TEST(BatchSize, PeaksThatWereNotSeenCountForNothing) {
  StepMemory unseen = step();
  unseen.peak_bytes = 0;
  EXPECT_DOUBLE_EQ(memory_need(unseen).per_sample, 10 * MiB);
}

TEST(BatchSize, IsTheLargestPowerOfTwoUnder95Percent) {
  const MemoryNeed need = {100 * MiB, MiB};
  EXPECT_EQ(advised_batch(need, 1000 * MiB), 512u);
  EXPECT_EQ(advised_batch(need, 644 * MiB), 256u);  // 612 > 611.8
  EXPECT_EQ(advised_batch(need, 612 * MiB / 0.95 + 1), 512u);
  EXPECT_EQ(advised_batch(need, 612 * MiB, 0, 0.0), 512u);  // without a reserve
}

TEST(BatchSize, IsBounded) {
  const MemoryNeed need = {100 * MiB, MiB};
  EXPECT_EQ(advised_batch(need, 1000 * MiB, 100), 64u);
  EXPECT_EQ(advised_batch(need, 1000 * MiB, 1), 1u);
  EXPECT_EQ(advised_batch(need, 106 * MiB), 0u);  // 101 > 100.7: not even one sample
  EXPECT_EQ(advised_batch({100 * MiB, 0}, 1000 * MiB, 4096), 4096u);
}

TEST(BatchSize, KnowsOptimizers) {
  EXPECT_EQ(optimizer_state_ratio("SGD"), 1);
  EXPECT_EQ(optimizer_state_ratio("AdamW"), 2);
  EXPECT_EQ(optimizer_state_ratio("LBFGS"), std::nullopt);  // 100 by default, growing
  EXPECT_EQ(optimizer_state_ratio("Adam2"), std::nullopt);
}

}  // namespace
}  // namespace cinch::policy
