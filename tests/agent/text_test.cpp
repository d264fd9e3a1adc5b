// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/text.h"

#include <gtest/gtest.h>

namespace cinch::cli {
namespace {

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(432328909), "412.3 MiB");
  EXPECT_EQ(human_bytes((1ULL << 20) - 1), "1.0 MiB") << "never 1024.0 KiB";
  EXPECT_EQ(human_bytes(~0ULL), "16384.0 PiB");
}

TEST(HumanSeconds, PicksTheUnit) {
  EXPECT_EQ(human_seconds(0), "0 ms");
  EXPECT_EQ(human_seconds(0.0123), "12 ms");
  EXPECT_EQ(human_seconds(3.14159), "3.1 s");
  EXPECT_EQ(human_seconds(125), "2 min 5 s");
  EXPECT_EQ(human_seconds(7380), "2 h 3 min");
  EXPECT_EQ(human_seconds(-1), "?");
}

TEST(HumanRatio, LosesItsDecimalWhenLarge) {
  EXPECT_EQ(human_ratio(11.44), "11.4x");
  EXPECT_EQ(human_ratio(99.99), "100x");
  EXPECT_EQ(human_ratio(1234.4), "1234x");
}

TEST(Counted, HasAPlural) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
}

TEST(Style, IsPlainWithoutColour) {
  EXPECT_EQ(Style{false}.bad("x"), "x");
  EXPECT_EQ(Style{true}.bad("x"), "\033[1;31mx\033[0m");
}

TEST(Table, AlignsColumns) {
  Table table({"name", ">bytes"});
  table.add({"a", "12"});
  table.add({"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", "1234567"});
  table.add({"short"});
  EXPECT_EQ(table.render("> "),
            "> name     bytes\n"
            "> a           12\n"
            "> \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9  1234567\n"
            "> short\n");
}

}  // namespace
}  // namespace cinch::cli
