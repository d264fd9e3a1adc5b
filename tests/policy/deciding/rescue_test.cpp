// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/rescue.h"

#include <string_view>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/entry_builder.h"

namespace cinch::policy {
namespace {

Settings parsed(std::string_view text) {
  auto loaded = parse_settings(text, "p.json");
  const auto* error = std::get_if<PolicyError>(&loaded);
  if (error != nullptr) ADD_FAILURE() << error->to_string();
  return error == nullptr ? std::get<Settings>(std::move(loaded)) : Settings();
}

TEST(Rescue, OffTakesNothingUnlessARescueIsWanted) {
  const Settings plain = parsed(R"({"version": 1, "policy": "off"})");
  EXPECT_FALSE(plain.rescue.enabled);
  EXPECT_FALSE(Policy(plain).enabled());
  EXPECT_FALSE(plain.allocator_cuda);

  const Settings off = parsed(R"({"version": 1, "policy": "off", "rescue": {"enabled": true}})");
  EXPECT_TRUE(Policy(off).enabled());
  EXPECT_TRUE(off.allocator_cuda) << "PyTorch's own asks nobody";
  EXPECT_GE(off.raw_window, 1000) << "nothing is encoded before";
  EXPECT_TRUE(harder(off).has_value());
}

TEST(Rescue, IsOnElsewhere) {
  EXPECT_TRUE(parsed(R"({"version": 1, "policy": "division"})").rescue.enabled);
  EXPECT_FALSE(parsed(R"({"version": 1, "policy": "division", "rescue": {"enabled": false}})")
                   .rescue.enabled);
}

TEST(Rescue, NeverApproximatesWhereThatIsNotAllowed) {
  EXPECT_FALSE(harder(parsed(R"({"version": 1, "policy": "lossless"})")).has_value());
  EXPECT_FALSE(harder(parsed(R"({"version": 1, "policy": "blpa", "rescue": {"harder": false}})"))
                   .has_value());
  EXPECT_FALSE(harder(parsed(R"({"version": 1, "policy": "blpa", "rescue": {"enabled": false}})"))
                   .has_value());
}

class HarderTest : public testing::Test {
 protected:
  static Decision before(std::string_view policy, EntryBuilder& entry) {
    return Policy(parsed(policy)).decide(entry.build());
  }
  static Decision after(std::string_view policy, EntryBuilder& entry) {
    return Policy(*harder(parsed(policy))).decide(entry.build());
  }
};

constexpr std::string_view off = R"({"version": 1, "policy": "off", "rescue": {"enabled": true}})";

TEST_F(HarderTest, OffKeepsFloatsAndARescueHoldsThemAsDivisionDoes) {
  EntryBuilder entry;
  entry.use("aten::convolution", "input", {8, 16, 32, 32});
  const Decision first = before(off, entry);
  ASSERT_EQ(first.action, Decision::Action::encode);
  EXPECT_EQ(first.candidates.front().spec.name, "exponent_pack") << "nothing is approximated";
  const Decision then = after(off, entry);
  ASSERT_EQ(then.action, Decision::Action::encode);
  EXPECT_EQ(then.candidates.front().spec.name, "division");
  EXPECT_EQ(then.candidates.front().spec.bits, 2);
}

TEST_F(HarderTest, AttentionKeepsTheBitsThatItNeeds) {
  EntryBuilder entry;
  entry.use("aten::_scaled_dot_product_flash_attention", "query", {2, 4, 64, 64});
  EXPECT_EQ(after(R"({"version": 1, "policy": "blpa", "blpa": {"bits": 8}})", entry)
                .candidates.front()
                .spec.bits,
            8);
}

TEST_F(HarderTest, WhatHasToBeExactStaysSo) {
  EntryBuilder entry;
  entry.use("aten::native_layer_norm", "result1", {64, 128, 1});
  constexpr std::string_view division = R"({"version": 1, "policy": "division"})";
  for (const std::string_view policy : {off, division}) {
    const Decision then = after(policy, entry);
    for (const auto& candidate : then.candidates) {
      EXPECT_EQ(codecs::codec_traits(candidate.spec.name)->fidelity, codecs::Fidelity::exact);
    }
  }
}

TEST_F(HarderTest, RulesStillDecideFirst) {
  constexpr std::string_view ruled =
      R"({"version": 1, "policy": "off", "rescue": {"enabled": true},
          "rules": [{"match": {"op": "aten::convolution"}, "keep": true}]})";
  EntryBuilder entry;
  entry.use("aten::convolution", "input", {8, 16, 32, 32});
  EXPECT_EQ(after(ruled, entry).action, Decision::Action::keep);
}

}  // namespace
}  // namespace cinch::policy
