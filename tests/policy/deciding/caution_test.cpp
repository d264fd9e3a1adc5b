// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/caution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy.h"
#include "tests/policy/entry_builder.h"

namespace cinch::policy {
namespace {

codecs::CodecSpec spec(const char* name, int bits, float bound = 0) {
  codecs::CodecSpec s;
  s.name = name;
  s.bits = bits;
  s.error_bound = bound;
  return s;
}

TEST(Caution, NoneChangesNothing) {
  EXPECT_EQ(with_caution(spec("division", 3), 0)->bits, 3);
}

TEST(Caution, DoublesBitsUpToEightThenGivesUp) {
  EXPECT_EQ(with_caution(spec("division", 2), 1)->bits, 4);
  EXPECT_EQ(with_caution(spec("division", 2), 2)->bits, 8);
  EXPECT_EQ(with_caution(spec("group_quant", 3), 2)->bits, 8);
  EXPECT_FALSE(with_caution(spec("division", 2), 3));
  EXPECT_EQ(with_caution(spec("blpa", 1), 3)->bits, 8);
  EXPECT_FALSE(with_caution(spec("blpa", 1), most_caution));
}

TEST(Caution, QuartersErrorBounds) {
  EXPECT_FLOAT_EQ(with_caution(spec("error_bounded_ratio", 2, 0.4F), 2)->error_bound, 0.025F);
  EXPECT_FALSE(with_caution(spec("error_bounded_ratio", 2, 0.4F), most_caution));
}

TEST(Caution, NothingIsApproximatedAtTheMost) {
  for (const std::string_view name : codecs::codec_names()) {
    EXPECT_FALSE(with_caution(spec(std::string(name).c_str(), 1, 1.0F), most_caution)) << name;
  }
}

TEST(Caution, DecisionsFollow) {
  const Policy policy(std::get<Settings>(load_settings("division")));
  EntryBuilder entry;
  entry.use("aten::convolution", "input", {4, 16, 28, 28});
  EXPECT_EQ(policy.decide(entry.build(), 0).candidates.at(0).spec.bits, 2);
  EXPECT_EQ(policy.decide(entry.build(), 1).candidates.at(0).spec.bits, 4);
  const Decision exact = policy.decide(entry.build(), 3);
  ASSERT_EQ(exact.candidates.size(), 1U);
  EXPECT_EQ(exact.candidates[0].spec.name, "exponent_pack");
  EXPECT_FALSE(exact.reason.empty());
}

}  // namespace
}  // namespace cinch::policy
