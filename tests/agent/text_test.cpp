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

TEST(Quoted, IsOneWordOfTheShell) {
  EXPECT_EQ(quoted("it's $HOME", Shell::posix), R"('it'\''s $HOME')");
  EXPECT_EQ(quoted(R"(a\b)", Shell::posix), R"('a\b')");
  EXPECT_EQ(quoted(R"(it's a\b)", Shell::fish), R"('it\'s a\\b')");
}

TEST(Printable, LeavesATerminalAlone) {
  EXPECT_EQ(printable("größer ▁▂ 学習 🙂"), "größer ▁▂ 学習 🙂");
  EXPECT_EQ(printable("\033]52;c;AAAA\007"), "?]52;c;AAAA?") << "would write to the clipboard";
  EXPECT_EQ(printable("a\r\n\tb\x7F"), "a???b?");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "?x");
  EXPECT_EQ(printable("\xC2\x9B[2J \xC2\xA0"), "?[2J \xC2\xA0") << "C1, as UTF-8";
  EXPECT_EQ(printable("\x9B[2J"), "?[2J") << "C1, as a byte";
  EXPECT_EQ(printable("\xE2\x80\xAEtxt \xE2\x81\xA6\xE2\x80\xA8"), "?txt ??") << "directions";
  // One character has one spelling; what is cut short is none.
  EXPECT_EQ(printable("\xC0\x9B|\xE0\x82\x9B|\xF0\x80\x80\x9B"), "??|???|????");
  EXPECT_EQ(printable("\xED\xA0\x80|\xF4\x90\x80\x80|\xFF|\xE2\x96"), "???|????|?|??");
  EXPECT_EQ(printable_lines("a\033\nb\n"), "a?\nb\n");
}

TEST(Printable, IsWhatPeopleAreShown) {
  EXPECT_EQ(Style{true}.bold("a\033[8m"), "\033[1ma?[8m\033[0m");
  EXPECT_EQ(Style{false}.bold("a\033[8m"), "a?[8m");
  Table table({"a", ">b"});
  table.add({"\033c", "\xC2\x9B"});
  EXPECT_EQ(table.render(""), "a   b\n?c  ?\n");
  testing::internal::CaptureStderr();
  say("one\033[2J\ntwo\xC2\x9B");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cinch: one?[2J\ncinch: two?\n");
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
