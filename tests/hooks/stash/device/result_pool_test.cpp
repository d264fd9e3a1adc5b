// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/result_pool.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

using codecs::cuda::Result;

int segments_asked = 0;
bool refuses = false;
std::vector<void*> segments;

class ResultPoolTest : public testing::Test {
 protected:
  ResultPoolTest() {
    segments_asked = 0;
    refuses = false;
  }
  ~ResultPoolTest() override {
    for (void* segment : segments) std::free(segment);
    segments.clear();
  }

  ResultPool pool{{[](std::size_t bytes) noexcept -> void* {
                     ++segments_asked;
                     if (refuses) return nullptr;
                     return segments.emplace_back(std::aligned_alloc(64, bytes));
                   },
                   []() noexcept { return std::size_t{1} << 40; }}};
};

/// Takes results until the pool needs another segment.
std::vector<Result*> take_a_segment(ResultPool& pool) {
  std::vector<Result*> taken;
  for (std::size_t i = 0; i < ResultPool::segment_bytes / 64; ++i) {
    taken.push_back(pool.take());
    EXPECT_NE(taken.back(), nullptr);
  }
  EXPECT_EQ(segments_asked, 1);
  return taken;
}

TEST_F(ResultPoolTest, GivesResultsOfZerosAndEachOnce) {
  const std::vector<Result*> taken = take_a_segment(pool);
  EXPECT_EQ(std::set<Result*>(taken.begin(), taken.end()).size(), taken.size());
  *taken[5] = {10, 1, 0};
  EXPECT_TRUE(ResultPool::is_written(*taken[5]));
  pool.give_back({taken[5]});
  Result* const again = pool.take();
  EXPECT_EQ(again, taken[5]);
  EXPECT_FALSE(ResultPool::is_written(*again));
  EXPECT_EQ(again->not_representable, 0U);
}

TEST_F(ResultPoolTest, WhatTheDeviceHasStillToWriteIsNotUsedAgain) {
  const std::vector<Result*> taken = take_a_segment(pool);
  for (Result* result : taken) pool.give_back({.result = result, .comes = true});
  Result* const other = pool.take();
  EXPECT_EQ(segments_asked, 2);
  EXPECT_TRUE(std::ranges::find(taken, other) == taken.end());
  for (std::size_t i = 1; i < ResultPool::segment_bytes / 64; ++i) pool.take();
  taken[3]->bytes = 17;  // the device comes to it
  EXPECT_EQ(pool.take(), taken[3]);
  EXPECT_EQ(segments_asked, 2);
}

TEST_F(ResultPoolTest, AHostWithoutMemoryIsNotAskedAgainAtOnce) {
  Result* const only = take_a_segment(pool).front();
  refuses = true;
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(segments_asked, 2);
  pool.give_back({only});
  EXPECT_EQ(pool.take(), only);
  refuses = false;
  EXPECT_NE(pool.take(), nullptr);
}

}  // namespace
}  // namespace cinch::hooks
