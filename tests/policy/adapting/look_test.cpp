// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(Footprint, HasLayersInTheOrderOfTheForward) {
  Footprint footprint;
  // The program holds the second one for longer.
  footprint.add(5, 10);
  footprint.add(2, 12);
  footprint.add(7, 11);
  footprint.add(1, 13);
  EXPECT_THAT(footprint.layers, testing::ElementsAre(5, 7, 2, 1));
}

}  // namespace
}  // namespace cinch::policy
