// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/budget_menu.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

Layer layer(LayerKind kind, bool on_device = false) {
  Layer layer;
  layer.kind = kind;
  layer.raw_bytes = 1 << 20;
  layer.on_device = on_device;
  return layer;
}

TEST(BudgetMenu, EveryLayerMayBeKeptAndBeginsWithItsMenu) {
  Settings settings;
  settings.division.name = "division";
  for (const auto kind : {LayerKind::linear, LayerKind::convolution, LayerKind::attention,
                          LayerKind::matmul, LayerKind::other}) {
    const auto menu = budget_menu(layer(kind), settings);
    EXPECT_NE(std::ranges::find(menu, Choice()), menu.end());
    EXPECT_NE(std::ranges::find(menu, budget_start(layer(kind), settings)), menu.end());
  }
}

TEST(BudgetMenu, TimeIsCountedByWhatIsEncodedAndWhatIsMoved) {
  Choice groups;
  groups.action = Choice::Action::encode;
  groups.spec.name = "group_quant";
  Choice lossless;
  lossless.action = Choice::Action::lossless;
  EXPECT_EQ(seconds_of({}, 1e9, 1e9), 0);
  EXPECT_GT(seconds_of(lossless, 1e9, 8e8), seconds_of(groups, 1e9, 1e8));
  Choice moved = groups;
  moved.offload = true;
  EXPECT_NEAR(seconds_of(moved, 1e9, 1.2e9) - seconds_of(groups, 1e9, 1.2e9), 0.2, 1e-12);
}

}  // namespace
}  // namespace cinch::policy
