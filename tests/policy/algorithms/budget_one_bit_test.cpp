// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

class OneBitTest : public testing::Test {
 protected:
  /// A large layer and a small one, and a budget that 2 bits just meet.
  void start(std::uint32_t guard_every_steps) {
    Settings settings = with("budget");
    settings.budget.peak_bytes = (5 << 20) / 16;
    settings.guard.every_steps = guard_every_steps;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    large_ = add(*director_, LayerKind::convolution, 4 << 20);
    small_ = add(*director_, LayerKind::convolution, 1 << 20);
  }

  void train(double error_of_large, double error_of_small) {
    for (std::uint64_t step = 1; step < 30; ++step) {
      Footprint footprint;
      footprint.layers = {large_, small_};
      footprint.raw_bytes = 5 << 20;
      footprint.planned_bytes = footprint.stored_bytes = footprint.raw_bytes / 16;
      director_->begin_step(step, &footprint);
      if (error_of_large > 0) try_layer(*director_, large_, error_of_large);
      if (error_of_small > 0) try_layer(*director_, small_, error_of_small);
    }
  }

  std::unique_ptr<Director> director_;
  std::uint32_t large_ = 0;
  std::uint32_t small_ = 0;
};

TEST_F(OneBitTest, IsChosenWhereTrialsFindItHarmless) {
  start(100);
  train(0.001, 0.3);
  EXPECT_EQ(director_->choice(large_).spec.bits, 1);
  EXPECT_GT(director_->choice(small_).spec.bits, 2);
}

TEST_F(OneBitTest, IsNotChosenWhereTheGuardWouldDoubleIt) {
  start(100);
  train(0.5, 100);  // 1 bit: gradients off by 2.1
  EXPECT_EQ(director_->choice(large_).spec.bits, 2);
}

TEST_F(OneBitTest, IsChosenWithoutAGuard) {
  start(0);
  train(0.5, 100);
  EXPECT_EQ(director_->choice(large_).spec.bits, 1);
}

TEST_F(OneBitTest, IsNotChosenUntried) {
  start(0);
  train(0, 100);
  EXPECT_EQ(director_->choice(large_).spec.bits, 2);
}

}  // namespace
}  // namespace cinch::policy
