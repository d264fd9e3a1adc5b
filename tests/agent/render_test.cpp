// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/report/render.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::cli {
namespace {

using telemetry::Report;

constexpr std::uint64_t mib = 1 << 20;

Report good_run() {
  Report r;
  r.active = true;
  r.policy = "division";
  r.pid = 42;
  r.command = "python train.py";
  r.torch_version = "2.11.0";
  r.steps = 60;
  r.raw_bytes_at_peak = 412 * mib;
  r.stored_bytes_at_peak = 36 * mib;
  r.ratio = 412.0 / 36;
  r.peak_rss_bytes = 861 * mib;
  r.seconds_in_cinch = 3.14;
  r.passed_through = {{"has to be exact", 2 * mib, 120}, {"a rule keeps it", 5 * mib, 60}};
  r.ops = {{"aten::relu", "result", "sign", 60, 640 * mib, 20 * mib, 0.5, 0.25},
           {"aten::convolution", "input", "division", 120, 2000 * mib, 180 * mib, 1, 0.5},
           {"aten::max_pool2d_with_indices", "self", "nothing", 60, 100 * mib, 0, 0, 0}};
  return r;
}

TEST(RenderSummary, OfAGoodRun) {
  EXPECT_EQ(
      render_summary(good_run(), Style{}),
      R"(cinch: 11.4x less activation memory: 412.0 MiB kept as 36.0 MiB at the peak (policy division)
cinch: peak RSS 861.0 MiB, 60 optimizer steps, 3.1 s in Cinch
cinch: what was saved (sums over the run):
cinch:   operator                 operand  codec     count        raw     stored  ratio
cinch:   convolution              input    division    120    2.0 GiB  180.0 MiB  11.1x
cinch:   relu                     result   sign         60  640.0 MiB   20.0 MiB  32.0x
cinch:   max_pool2d_with_indices  self     nothing      60  100.0 MiB        0 B      -
cinch: not compressed, and why (sums over the run):
cinch:   reason             bytes  count
cinch:   a rule keeps it  5.0 MiB     60
cinch:   has to be exact  2.0 MiB    120
)");
}

TEST(RenderSummary, OfALowRatioNamesTheReasonsFirst) {
  Report r = good_run();
  r.ratio = 1.3;
  const std::string text = render_summary(r, Style{});
  const std::size_t reasons = text.find("cinch: NOT COMPRESSED, and why");
  ASSERT_NE(reasons, std::string::npos) << text;
  EXPECT_LT(reasons, text.find("what was saved")) << text;
}

TEST(RenderSummary, SaysWhatToDoAboutALargeReason) {
  const std::string see = "see docs/troubleshooting.md#not-compressed-and-why\n";
  Report r = good_run();
  r.passed_through = {{"has to be exact", 1400 * mib, 60},
                      {"smaller than min_bytes", 1200 * mib, 600},
                      {"read by backward before it was encoded", 9000 * mib, 60}};
  EXPECT_THAT(render_summary(r, Style{}), testing::Not(testing::HasSubstr(see))) << "a tenth";
  r.passed_through[2].bytes = 0;
  const std::string exact = "26 % of what was saved: has to be exact; " + see;
  EXPECT_THAT(render_summary(r, Style{}), testing::HasSubstr("cinch: " + exact));
  EXPECT_THAT(render_report(r, Style{}), testing::HasSubstr("\n" + exact));
  r.passed_through[1].bytes = 6000 * mib;
  r.ops.push_back({"aten::mul", "self", "kept", 60, 1400 * mib, 1400 * mib, 0, 0});
  const std::string small =
      "59 % of what was saved: smaller than min_bytes; try a smaller \"min_bytes\" in the policy, "
      "or " +
      see;
  EXPECT_THAT(render_summary(r, Style{}), testing::HasSubstr("cinch: " + small))
      << "what was kept counts once";
}

TEST(RenderSummary, GivesNoHintAboutWhatBackwardReadsFirst) {
  Report r = good_run();
  r.passed_through = {{"read by backward before it was encoded", 9000 * mib, 60},
                      {"read by backward when it was to be encoded", 8000 * mib, 60}};
  EXPECT_THAT(render_summary(r, Style{}), testing::Not(testing::HasSubstr("of what was saved:")));
}

TEST(RenderSummary, IsShort) {
  Report r = good_run();
  for (int i = 0; i < 20; ++i) {
    r.ops.push_back({"op" + std::to_string(i), "self", "kept", 1, 1, 1, 0, 0});
    r.passed_through.push_back({"reason " + std::to_string(i), 1, 1});
  }
  const std::string text = render_summary(r, Style{});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 9 + 7) << text;
  EXPECT_THAT(text, testing::HasSubstr("cinch:   and 17 more rows\n"));
  EXPECT_THAT(text, testing::HasSubstr("cinch:   and 18 more reasons\n"));
}

TEST(RenderSummary, ShortensNames) {
  Report r = good_run();
  r.ops[0].op = "aten::_scaled_dot_product_flash_attention_for_cpu";
  r.ops[1].op = "";
  const std::string text = render_summary(r, Style{});
  EXPECT_THAT(text, testing::HasSubstr("  _scaled_dot_product_flash_att...  result"));
  EXPECT_THAT(text, testing::HasSubstr("  (unknown)  "));
  EXPECT_THAT(render_report(r, Style{}), testing::HasSubstr(r.ops[0].op));
}

TEST(RenderSummary, OfAnInactiveProcess) {
  Report r;
  r.inactive_reason = "torch 2.12.0 is not 2.11";
  EXPECT_EQ(render_summary(r, Style{}), "cinch: NOT ACTIVE: torch 2.12.0 is not 2.11\n");
}

TEST(RenderSummary, OfEmptyRuns) {
  Report r;
  r.active = true;
  r.policy = "lossless";
  EXPECT_THAT(render_summary(r, Style{}),
              testing::StartsWith("cinch: no activation memory was taken (policy lossless)\n"));
  r.raw_bytes_at_peak = mib;
  EXPECT_THAT(render_summary(r, Style{}),
              testing::StartsWith("cinch: no activation memory left: 1.0 MiB needed no byte"));
}

TEST(RenderSummary, MentionsWhatOthersHold) {
  Report r = good_run();
  r.held_elsewhere_bytes_at_peak = 3 * mib;
  r.stash_bytes_at_exit = mib;
  const std::string text = render_summary(r, Style{});
  EXPECT_THAT(text, testing::HasSubstr("cinch: 3.0 MiB more were saved for backward, but the "
                                       "program itself holds them\n"));
  EXPECT_THAT(text,
              testing::HasSubstr("cinch: 1.0 MiB were still waiting for a backward at exit\n"));
}

TEST(RenderReport, HoldsEverything) {
  const std::string text = render_report(good_run(), Style{});
  EXPECT_THAT(text, testing::StartsWith("process 42: python train.py\ntorch 2.11.0\n11.4x less"));
  EXPECT_THAT(text, testing::HasSubstr("encode  decode"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\033")));
  EXPECT_THAT(render_report(good_run(), Style{true}), testing::HasSubstr("\033[1m11.4x less"));
}

}  // namespace
}  // namespace cinch::cli
