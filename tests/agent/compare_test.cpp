// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/report/compare.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/cli/workplace.h"

namespace cinch::cli {
namespace {

using telemetry::Report;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t mib = 1 << 20;

Report run_a() {
  Report r;
  r.active = true;
  r.policy = "division";
  r.command = "python train.py";
  r.torch_version = "2.11.0";
  r.steps = 60;
  r.raw_bytes_at_peak = 412 * mib;
  r.stored_bytes_at_peak = 36 * mib;
  r.ratio = 412.0 / 36;
  r.peak_rss_bytes = 861 * mib;
  r.seconds = 60;
  r.seconds_in_cinch = 3;
  r.ops = {{"aten::relu", "result", "sign", 60, 640 * mib, 20 * mib, 0.5, 0.25},
           {"aten::convolution", "input", "division 2-bit", 120, 2000 * mib, 180 * mib, 1, 0.5},
           {"aten::gelu", "self", "kept", 60, mib, mib}};
  return r;
}

Report run_b() {
  Report r = run_a();
  r.policy = "lossless";
  r.stored_bytes_at_peak = 206 * mib;
  r.ratio = 2;
  r.peak_rss_bytes = 1031 * mib;
  r.seconds = 75;
  r.seconds_in_cinch = 12;
  r.ops = {{"aten::relu", "result", "sign", 60, 640 * mib, 20 * mib, 0.5, 0.25},
           {"aten::convolution", "input", "exponent_pack", 120, 2000 * mib, 1500 * mib, 4, 3}};
  return r;
}

std::string golden(const char* name) {
  return read_file(std::filesystem::path(GOLDEN_FOLDER) / name);
}

TEST(Comparison, OfTwoPolicies) {
  EXPECT_EQ(render_comparison(run_a(), "a.json", run_b(), "b.json", Style{}),
            golden("comparison.txt"));
}

TEST(Comparison, NamesWhatAnOlderFileLacks) {
  std::string error;
  const auto old = telemetry::from_json(
      R"({"version": 1, "active": true, "policy": "division", "steps": 60, "ratio": 4,
          "raw_bytes_at_peak": 4096, "stored_bytes_at_peak": 1024})",
      error);
  ASSERT_TRUE(old) << error;
  const std::string text = render_comparison(*old, "old.json", run_b(), "b.json", Style{});
  EXPECT_THAT(text, HasSubstr("A is of an older Cinch and does not say: "));
  EXPECT_THAT(text, HasSubstr("seconds_in_cinch"));
  EXPECT_THAT(text, Not(HasSubstr("B is of an older")));
  // What is not known is no zero.
  EXPECT_THAT(text, testing::ContainsRegex("peak RSS +\\? +1.0 GiB +\\?"));
}

TEST(Comparison, OfARunWithItselfSaysSame) {
  const std::string text = render_comparison(run_a(), "a", run_a(), "a", Style{});
  EXPECT_THAT(text, testing::ContainsRegex("ratio +11.4x +11.4x +same"));
}

TEST(Comparison, SaysWhenOneWasNotActive) {
  Report off = run_a();
  off.active = false;
  off.inactive_reason = "the policy is off";
  EXPECT_THAT(render_comparison(run_a(), "a", off, "b", Style{}),
              HasSubstr("NOT ACTIVE: the policy is off"));
}

}  // namespace
}  // namespace cinch::cli
