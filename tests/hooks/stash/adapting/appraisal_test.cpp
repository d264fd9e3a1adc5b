// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/appraisal.h"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

constexpr double seconds_of_step = 2;

/// A program of one growth a step: each step saves 100 bytes, held in 10, and spends 0.5 s in
/// Cinch.
class AppraisalOf : public testing::Test {
 protected:
  void begin_step() {
    appraisal.begin_growth(++optimizer_steps, statistics, now);
    now += seconds_of_step;
    statistics.spent(500'000'000);
    appraisal.measure(100, appraisal.compares() ? 110 : 10);
  }
  void see(const void* parameter, double size, double error, double change = -1,
           bool is_traced = true) {
    appraisal.saw_gradient(parameter, {4, true, is_traced, size, error, change});
  }
  telemetry::Report::Appraisal row() {
    telemetry::Report report;
    appraisal.fill(report);
    return report.appraisal.front();
  }

  Statistics statistics;
  Appraisal appraisal{{.warm_up = 2, .timed = 3, .compared = 2}};
  std::uint64_t optimizer_steps = 0;
  double now = 100;
  int first = 0;
  int second = 0;
};

TEST_F(AppraisalOf, ComparesTheLastSteps) {
  for (const bool compared : {false, false, false, false, false, true, true, false}) {
    begin_step();
    EXPECT_EQ(appraisal.compares(), compared) << "step " << optimizer_steps;
    EXPECT_EQ(appraisal.take_done(), optimizer_steps == 8);
  }
  EXPECT_FALSE(appraisal.take_done());
  EXPECT_TRUE(row().measured);
}

TEST_F(AppraisalOf, TakesAProgramThatEndsWithTheLastStep) {
  for (int step = 0; step < 7; ++step) begin_step();
  EXPECT_FALSE(row().measured);
  see(&first, 1, 0);
  EXPECT_TRUE(row().measured);
}

TEST_F(AppraisalOf, CountsTimeAndBytesOfTheTimedSteps) {
  for (int step = 0; step < 8; ++step) begin_step();
  EXPECT_DOUBLE_EQ(row().seconds, 3 * seconds_of_step);
  EXPECT_NEAR(row().seconds_in_cinch, 1.5, 1e-9);
  EXPECT_EQ(row().raw_bytes, 100u);
  EXPECT_EQ(row().stored_bytes, 10u);
}

TEST_F(AppraisalOf, LeavesOutTheTimeOfLooks) {
  for (int step = 0; step < 8; ++step) {
    begin_step();
    statistics.spent(250'000'000);
    statistics.adapted(250'000'000);
  }
  EXPECT_NEAR(row().seconds, 3 * (seconds_of_step - 0.25), 1e-9);
  EXPECT_NEAR(row().seconds_in_cinch, 1.5, 1e-9);
}

TEST_F(AppraisalOf, TakesSeveralGrowthsForOneStep) {
  begin_step();
  for (int growth = 0; growth < 9; ++growth) {
    appraisal.begin_growth(optimizer_steps, statistics, now);
  }
  EXPECT_EQ(row().steps, 1u);
}

TEST_F(AppraisalOf, TakesGrowthsForStepsWithoutAnOptimizer) {
  for (int growth = 0; growth < 5; ++growth) appraisal.begin_growth(0, statistics, now);
  EXPECT_EQ(row().steps, 5u);
}

TEST_F(AppraisalOf, SumsOverParametersAndTakesTheMeanOverWeights) {
  for (int step = 0; step < 6; ++step) begin_step();
  see(&first, 10, 1);
  see(&second, 90, 0);
  begin_step();
  see(&first, 10, 1, 20);
  see(&second, 90, 0, 18);
  EXPECT_DOUBLE_EQ(row().gradient_error, 2.0 / 200);
  EXPECT_DOUBLE_EQ(row().error_by_weight, (0.1 + 0) / 2);
  EXPECT_DOUBLE_EQ(row().gradient_noise, 38.0 / 100 / 2);
  EXPECT_DOUBLE_EQ(row().noise_by_weight, (1 + 0.1) / 2);
  EXPECT_EQ(row().gradients, 8u);
  EXPECT_EQ(row().untraced_gradients, 0u);
}

TEST_F(AppraisalOf, LeavesOutWhatIsNotFinite) {
  for (int step = 0; step < 6; ++step) begin_step();
  see(&first, 10, 1);
  see(&first, std::numeric_limits<double>::infinity(), std::nan(""));
  EXPECT_DOUBLE_EQ(row().gradient_error, 0.1);
}

TEST_F(AppraisalOf, CountsUntracedGradients) {
  for (int step = 0; step < 6; ++step) begin_step();
  see(&first, 10, 1, -1, false);
  see(&first, 10, 1);
  see(&second, 10, 1);
  EXPECT_EQ(row().untraced_gradients, 4u);
}

TEST_F(AppraisalOf, TakesNoGradientsOfOtherSteps) {
  begin_step();
  see(&first, 10, 1);
  EXPECT_EQ(row().gradients, 0u);
}

TEST(WantedAppraisal, IsWhatTheVariableSays) {
  setenv("CINCH_APPRAISE", "20,10,11", 1);
  const auto steps = wanted_appraisal();
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->warm_up, 20u);
  EXPECT_EQ(steps->timed, 10u);
  EXPECT_EQ(steps->compared, 11u);
  for (const char* wrong : {"", "20", "a,b,c"}) {
    setenv("CINCH_APPRAISE", wrong, 1);
    EXPECT_FALSE(wanted_appraisal()) << wrong;
  }
  unsetenv("CINCH_APPRAISE");
  EXPECT_FALSE(wanted_appraisal());
}

}  // namespace
}  // namespace cinch::hooks
