// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/budget_menu.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/deciding/describe_layer.h"
#include "tests/policy/director_builder.h"
#include "tests/policy/entry_builder.h"
#include "tests/policy/file/parsed.h"

namespace cinch::policy {
namespace {

Layer layer(LayerKind kind, bool on_device = false) {
  Layer layer;
  layer.kind = kind;
  layer.raw_bytes = 1 << 20;
  layer.on_device = on_device;
  return layer;
}

TEST(BudgetMenu, GroupsAreDitheredWhereZerosNeedNotStayZeros) {
  Settings settings;
  settings.budget.offload = true;
  for (const auto kind :
       {LayerKind::linear, LayerKind::convolution, LayerKind::batch_norm, LayerKind::layer_norm,
        LayerKind::elementwise, LayerKind::matmul, LayerKind::attention, LayerKind::other}) {
    const bool wanted = kind != LayerKind::other;
    auto menu = budget_menu(layer(kind, true), settings);
    menu.push_back(budget_start(layer(kind), settings));
    for (const Choice& choice : menu) {
      EXPECT_EQ(choice.spec.subtractive_dither, wanted && choice.spec.name == "group_quant")
          << static_cast<int>(kind) << ' ' << choice.spec.name << ' ' << choice.spec.bits;
    }
  }
}

TEST(BudgetMenu, GroupsAreAsAdvisedButForTheirBits) {
  Layer advised = layer(LayerKind::elementwise);
  advised.advice = {.name = "group_quant", .bits = 6, .group = 64, .floor = -3};
  const auto bits = [&advised] {
    auto menu = budget_menu(advised, Settings());
    menu.push_back(budget_start(advised, Settings()));
    std::vector<int> bits;
    for (const Choice& choice : menu) {
      if (choice.spec.name != "group_quant") continue;
      EXPECT_EQ(choice.spec.group, 64);
      EXPECT_EQ(choice.spec.floor, -3);
      bits.push_back(choice.spec.bits);
    }
    return bits;
  };
  EXPECT_THAT(bits(), testing::ElementsAre(3, 4, 6, 8, 4));
  advised.kind = LayerKind::other;
  EXPECT_THAT(bits(), testing::ElementsAre(6, 8, 6)) << "no fewer than advised";
}

/// Bits of the groups that an entry of one or two uses may have; negative without dithering.
std::vector<int> bits_of(const char* op, const char* operand, const char* other_op = nullptr,
                         const char* other_operand = nullptr) {
  Settings settings = with("budget");
  settings.budget.ratio = 10;
  EntryBuilder builder;
  builder.use(op, operand, {8, 64, 64});
  if (other_op != nullptr) builder.use(other_op, other_operand, {8, 64, 64});
  const auto described =
      describe_layer(Policy(settings), *make_director(settings), builder.build());
  std::vector<int> bits;
  for (std::size_t i = 0; described && i < described->menu.size(); ++i) {
    const Choice& choice = described->menu[i];
    if (choice.spec.name != "group_quant") continue;
    EXPECT_LT(described->menu_bytes[i], described->raw_bytes);
    bits.push_back(choice.spec.subtractive_dither ? choice.spec.bits : -choice.spec.bits);
  }
  return bits;
}

TEST(BudgetMenu, OperandsHaveTheirLeastBits) {
  EXPECT_THAT(bits_of("aten::native_layer_norm", "input", "aten::addmm", "mat1"),
              testing::ElementsAre(1, 2, 3, 4, 6, 8));
  EXPECT_THAT(bits_of("aten::bmm", "self"), testing::ElementsAre(3, 4, 6, 8));
  const auto* attention = "aten::_scaled_dot_product_flash_attention_for_cpu";
  EXPECT_THAT(bits_of(attention, "key"), testing::ElementsAre(4, 6, 8));
  EXPECT_THAT(bits_of(attention, "result0"), testing::ElementsAre(3, 4, 6, 8))
      << "is in no exponent";
  EXPECT_THAT(bits_of(attention, "result0", attention, "query"), testing::ElementsAre(4, 6, 8));
  EXPECT_THAT(bits_of("aten::_softmax", "result", "aten::bmm", "self"), testing::ElementsAre())
      << "are no layer's activation";
}

/// What the preset "default" says of the layer that an entry of these uses is.
std::optional<codecs::CodecSpec> advice_for(EntryBuilder& builder) {
  const Settings settings =
      accepted(R"({"version": 1, "policy": "budget", "budget": {"ratio": 9}})");
  const auto described =
      describe_layer(Policy(settings), *make_director(settings), builder.build());
  EXPECT_TRUE(described);
  return described ? described->advice : std::nullopt;
}

TEST(BudgetMenu, AdviceIsThatOfAllReaders) {
  EntryBuilder gelu, norm, both;
  gelu.use("aten::gelu", "self", {8, 64, 64});
  norm.use("aten::native_layer_norm", "input", {8, 64, 64});
  EXPECT_EQ(advice_for(gelu)->floor, -3);
  EXPECT_EQ(advice_for(norm)->group, 64);
  both.use("aten::gelu", "self", {8, 64, 64}).use("aten::addmm", "mat1", {512, 64});
  EXPECT_EQ(advice_for(both), std::nullopt) << "linear layers have no floor";
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
