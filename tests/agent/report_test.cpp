// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/cli/workplace.h"

namespace cinch::telemetry {
namespace {

Report full() {
  Report r;
  r.active = true;
  r.policy = "division";
  r.pid = 42;
  r.command = "python train.py --name \"x\"";
  r.torch_version = "2.11.0";
  r.steps = 60;
  r.raw_bytes_at_peak = (1ULL << 53) + 1;  // no double holds it
  r.stored_bytes_at_peak = 7;
  r.held_elsewhere_bytes_at_peak = 8;
  r.ratio = 11.5;
  r.stash_bytes_at_exit = 9;
  r.peak_rss_bytes = 10;
  r.rss_bytes_at_start = 11;
  r.seconds_in_cinch = 0.25;
  r.seconds_adapting = 0.125;
  r.rescues = 3;
  r.rescued_bytes = 12;
  r.devices = {{1, "Cinch", 500, 600, 70}};
  r.passed_through = {{"has to be exact", 100, 2}, {"a rule keeps it", 50, 1}};
  r.ops = {{"aten::convolution", "input", "division", 3, 300, 30, 0.5, 0.125}};
  r.seconds = 61.5;
  r.memory = {{0.5, 1, 300, 30, 5, 200, 20, 4096}};
  r.events = {{0.75, 2, "guard", "aten::convolution input 8x3 #1", "values off"}};
  r.events_dropped = 4;
  r.entries = {{"layer1.0.conv1", "own", "aten::convolution", "input", "division 2-bit", "float32",
                "8x3x4x4", 1, 3, 300, 30, 3.2, 0.5, 0.125, 1, 0.01, 0.02}};
  Report::DryRun& dry = r.dry_run.emplace_back();
  dry.policy = "division";
  dry.measured = true;
  dry.raw_bytes = 300;
  dry.ops = r.ops;
  dry.passed_through = r.passed_through;
  r.appraisal = {{true, 41, 300, 30, 1.5, 0.25, 0.01, 0.5, 0.02, 0.75, 1000, 10}};
  r.optimizer = "AdamW";
  r.parameter_bytes = 77;
  return r;
}

Report parsed(const std::string& text) {
  std::string error;
  const auto report = from_json(text, error);
  EXPECT_TRUE(report) << error;
  return report.value_or(Report{});
}

std::string refused(const std::string& text) {
  std::string error;
  EXPECT_FALSE(from_json(text, error));
  return error;
}

TEST(Report, TellsWhatAnOlderFileLacks) {
  EXPECT_THAT(parsed(to_json(full())).missing, testing::IsEmpty());
  const Report old = parsed(R"({"version": 1, "active": true, "ratio": 2})");
  EXPECT_THAT(old.missing, testing::IsSupersetOf({"steps", "memory", "events", "entries"}));
  EXPECT_THAT(old.missing, testing::Not(testing::Contains("ratio")));
}

TEST(Report, SurvivesTheRoundTrip) {
  const Report before = full();
  const std::string text = to_json(before);
  const Report after = parsed(text);
  EXPECT_EQ(to_json(after), text);
  EXPECT_EQ(after.raw_bytes_at_peak, before.raw_bytes_at_peak);
  EXPECT_EQ(after.command, before.command);
  ASSERT_EQ(after.passed_through.size(), 2U);
  EXPECT_EQ(after.passed_through[0].reason, "has to be exact");
  ASSERT_EQ(after.devices.size(), 1U);
  EXPECT_EQ(after.devices[0].allocator, "Cinch");
  EXPECT_EQ(after.devices[0].peak_reserved_bytes, 600U);
  ASSERT_EQ(after.ops.size(), 1U);
  EXPECT_EQ(after.ops[0].decode_seconds, 0.125);
  ASSERT_EQ(after.entries.size(), 1U);
  EXPECT_EQ(after.entries[0].module, "layer1.0.conv1");
  ASSERT_EQ(after.memory.size(), 1U);
  EXPECT_EQ(after.memory[0].rss_bytes, 4096U);
  ASSERT_EQ(after.dry_run.size(), 1U);
  ASSERT_EQ(after.dry_run[0].ops.size(), 1U);
  EXPECT_EQ(after.dry_run[0].ops[0].stored_bytes, 30U);
  ASSERT_EQ(after.appraisal.size(), 1U);
  EXPECT_TRUE(after.appraisal[0].measured);
  EXPECT_EQ(after.appraisal[0].noise_by_weight, 0.75);
  EXPECT_EQ(after.appraisal[0].untraced_gradients, 10U);
}

TEST(Report, HasTheFieldsThatItsReadersExpect) {
  const auto json = nlohmann::json::parse(to_json(full()));
  for (const auto* field : {"version",
                            "active",
                            "inactive_reason",
                            "policy",
                            "steps",
                            "raw_bytes_at_peak",
                            "stored_bytes_at_peak",
                            "ratio",
                            "peak_rss_bytes",
                            "seconds_in_cinch",
                            "seconds_adapting",
                            "rescues",
                            "rescues_early",
                            "rescues_harder",
                            "rescues_by_offload",
                            "rescued_bytes",
                            "rescued_harder_bytes",
                            "rescued_by_offload_bytes",
                            "given_by_others_bytes",
                            "offloads",
                            "offloaded_bytes",
                            "fetches",
                            "fetches_ahead",
                            "size_waits",
                            "offloaded_bytes_at_peak",
                            "peak_pinned_bytes",
                            "reserved_pinned_bytes",
                            "passed_through",
                            "ops"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  for (const auto* field : {"op", "operand", "count", "raw_bytes", "stored_bytes", "codec"}) {
    EXPECT_TRUE(json.at("ops").at(0).contains(field)) << field;
  }
}

TEST(Report, AnyBytesInTheCommandLine) {
  Report r = full();
  r.command = "prog \xff\xfe\n";
  EXPECT_EQ(parsed(to_json(r)).command, "prog \xEF\xBF\xBD\xEF\xBF\xBD\n");
}

TEST(Report, FieldsOfLaterAdditionsAreOptionalAndIgnored) {
  const Report r = parsed(R"({"version": 1, "steps": 3, "brand_new": [1]})");
  EXPECT_EQ(r.steps, 3U);
  EXPECT_FALSE(r.active);
}

TEST(Report, OtherVersionsAreRefused) {
  EXPECT_EQ(refused(R"({"version": 2})"),
            "found report version 2, expected 1: another version of Cinch wrote it");
}

TEST(Report, OtherTextsAreRefused) {
  EXPECT_THAT(refused(""), testing::HasSubstr("expected a report of Cinch"));
  EXPECT_THAT(refused("{\"version\""), testing::HasSubstr("found no JSON at byte"));
  EXPECT_THAT(refused("[1]"), testing::HasSubstr("found JSON without a \"version\""));
  EXPECT_THAT(refused(R"({"version": 1, "steps": "many"})"),
              testing::HasSubstr("found a field of another type"));
  EXPECT_THAT(refused(R"({"version": 1, "ops": [{"op": 3}]})"),
              testing::HasSubstr("found a field of another type"));
}

TEST(WriteReport, ReplacesTheFile) {
  const cli::TemporaryDirectory directory;
  const std::string path = (directory.path() / "r.json").string();
  Report r = full();
  EXPECT_EQ(write_report(r, path), "");
  r.steps = 61;
  EXPECT_EQ(write_report(r, path), "");
  EXPECT_EQ(parsed(cli::read_file(path)).steps, 61U);
  const auto entries = std::filesystem::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "no temporary file stays";
}

TEST(WriteReport, SaysWhatFailed) {
  const cli::TemporaryDirectory directory;
  EXPECT_THAT(write_report(full(), (directory.path() / "no" / "r.json").string()),
              testing::AllOf(testing::StartsWith("cannot write "),
                             testing::EndsWith(": No such file or directory")));
  EXPECT_THAT(write_report(full(), directory.path().string()), testing::StartsWith("cannot "));
}

}  // namespace
}  // namespace cinch::telemetry
