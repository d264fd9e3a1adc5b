// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/advice.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

Prospect prospect(const char* policy, double ratio, double error) {
  Prospect made;
  made.policy = policy;
  made.raw_bytes = 1000;
  made.stored_bytes = 1000 / ratio;
  made.error = made.error_by_weight = error;
  made.noise = made.noise_by_weight = 0.5;
  return made;
}

TEST(Advice, IsTheLargestRatioWithinTheShare) {
  const std::vector<Prospect> all = {prospect("lossless", 2, 0), prospect("fine", 8, 0.049),
                                     prospect("coarse", 20, 0.051), prospect("four", 4, 0.001)};
  EXPECT_EQ(advised_policy(all), 1u);
  EXPECT_EQ(advised_policy(all, 0.2), 2u);
  EXPECT_EQ(advised_policy(all, 0), 0u);
}

TEST(Advice, IsNothingWhereAllErrorsAreTooLarge) {
  const std::vector<Prospect> all = {prospect("fine", 8, 0.06), prospect("coarse", 20, 3)};
  EXPECT_EQ(advised_policy(all), std::nullopt);
  EXPECT_EQ(advised_policy({}), std::nullopt);
}

TEST(Advice, CountsWhicheverShareIsLarger) {
  Prospect one = prospect("one", 8, 0.01);
  EXPECT_DOUBLE_EQ(one.share_of_noise(), 0.02);
  one.error_by_weight = 0.4;
  EXPECT_DOUBLE_EQ(one.share_of_noise(), 0.8);
}

TEST(Advice, ToleratesNoErrorWithoutNoise) {
  Prospect one = prospect("one", 8, 0.01);
  one.noise = one.noise_by_weight = 0;
  EXPECT_TRUE(std::isinf(one.share_of_noise()));
  EXPECT_EQ(advised_policy(std::vector{one}), std::nullopt);
  one.error = one.error_by_weight = 0;
  EXPECT_EQ(one.share_of_noise(), 0);
  EXPECT_EQ(advised_policy(std::vector{one}), 0u);
}

TEST(Advice, LeavesOutWhatIsKnownInPart) {
  std::vector<Prospect> all = {prospect("fine", 8, 0.001), prospect("coarse", 20, 0.001)};
  all[1].is_traced = false;
  EXPECT_EQ(advised_policy(all), 0u);
}

TEST(Advice, LeavesOutFiguresThatAreNoNumbers) {
  const std::vector<Prospect> all = {prospect("broken", 8, std::nan(""))};
  EXPECT_EQ(advised_policy(all), std::nullopt);
}

TEST(RelativeTime, IsWithCinchOverWithout) {
  EXPECT_DOUBLE_EQ(relative_time(12, 2), 1.2);
  EXPECT_DOUBLE_EQ(relative_time(12, 0), 1);
  EXPECT_EQ(relative_time(2, 2), 0);
  EXPECT_EQ(relative_time(2, -1), 0);
}

}  // namespace
}  // namespace cinch::policy
