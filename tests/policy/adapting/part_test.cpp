// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/part.h"

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

TEST(PartToKeep, LeavesRoomForSeveralTensors) {
  EXPECT_EQ(part_to_keep(10 * MiB, 4 * MiB), 256 * KiB);
}

TEST(PartToKeep, IsEnoughToMeasureNoiseAndNoMoreThanHelps) {
  EXPECT_EQ(part_to_keep(10 * MiB, 64 * KiB), 16 * KiB);
  EXPECT_EQ(part_to_keep(500 * MiB, 100 * MiB), 1 * MiB);
}

TEST(PartToKeep, IsAllOfASmallTensor) {
  EXPECT_EQ(part_to_keep(5000, 64 * KiB), 5000U);
}

TEST(PartToKeep, FitsIntoTheRoom) {
  EXPECT_EQ(part_to_keep(10 * MiB, 9000), 8 * KiB) << "whole pieces";
  EXPECT_EQ(part_to_keep(10 * MiB, 1000), 0U);
  EXPECT_EQ(part_to_keep(10 * MiB, 0), 0U);
}

}  // namespace
}  // namespace cinch::policy
