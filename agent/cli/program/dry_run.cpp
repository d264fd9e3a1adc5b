// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/dry_run.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {
namespace {

using telemetry::Report;

bool is_measured(const Report& report) {
  return !report.dry_run.empty() &&
         std::ranges::all_of(report.dry_run, [](const auto& run) { return run.measured; });
}

/// How far the dry run is, in words.
std::string dry_run_stage(const telemetry::LiveFigures* live) {
  if (live == nullptr) return "cinch: dry run: the program has come to no backward yet";
  return "cinch: dry run: backward " + std::to_string(live->boundaries) + ", with trials";
}

/// The error; "-" when none was measured.
std::string error_text(double error, bool measured) {
  return measured ? human_error(error) : "-";
}

bool was_checked(const Report::Op& op) {
  return op.guard_checks != 0;
}

std::string overview(const Report& report) {
  Table table(
      {"policy", ">ratio", ">at the peak", ">encode", ">decode", ">error", ">gradient error"});
  for (const Report::DryRun& run : report.dry_run) {
    const bool checked = std::ranges::any_of(run.ops, was_checked);
    table.add({run.policy, run.stored_bytes == 0 ? "-" : human_ratio(run.ratio),
               human_bytes(run.stored_bytes), human_seconds(run.encode_seconds),
               human_seconds(run.decode_seconds), error_text(run.worst_relative_error, checked),
               error_text(run.worst_gradient_error, checked)});
  }
  return table.render("  ");
}

std::string operators(const Report::DryRun& run) {
  Table table({"operator", "operand", "codec", ">count", ">raw", ">stored", ">ratio", ">encode",
               ">decode", ">error", ">gradient error"});
  for (const Report::Op& op : run.ops) {
    table.add({op.op.empty() ? "(unknown)" : op.op, op.operand, op.codec, std::to_string(op.count),
               human_bytes(op.raw_bytes), human_bytes(op.stored_bytes),
               human_ratio(op.raw_bytes, op.stored_bytes), human_seconds(op.encode_seconds),
               human_seconds(op.decode_seconds),
               error_text(op.worst_relative_error, was_checked(op)),
               error_text(op.worst_gradient_error, was_checked(op))});
  }
  std::string text = table.render("  ");
  for (const auto& item : run.passed_through) {
    text += "  " + human_bytes(item.bytes) + " not taken: " + printable(item.reason) + '\n';
  }
  return text;
}

}  // namespace

ShortRunOutcome run_dry(const DryRunRequest& request) {
  const std::vector<std::string> policies = or_all_presets(request.policies);
  if (std::string problem = problem_of(policies); !problem.empty()) {
    return {usage_error, std::nullopt, std::move(problem)};
  }
  std::string wanted;
  for (const std::string& name : policies) {
    wanted += (wanted.empty() ? "" : ",") + absolute_policy(name);
  }
  return run_short(
      {request.command,
       {{"CINCH_POLICY", "default"}, {"CINCH_DRY_RUN", wanted}, {"CINCH_REPORT_DETAILS", "1"}},
       is_measured,
       "its second step was over",
       dry_run_stage,
       request.keep_running});
}

std::string render_dry_run(const Report& report, const Style& style) {
  std::uint64_t raw = 0;
  for (const auto& run : report.dry_run) raw = std::max(raw, run.raw_bytes);
  std::string text = style.bold("dry run: " + human_bytes(raw) +
                                " of activations at the peak; what each policy would hold") +
                     '\n' + overview(report);
  for (const Report::DryRun& run : report.dry_run) {
    text += '\n' + style.bold(run.policy) + ", one step\n" + operators(run);
    if (!run.message.empty()) text += "  " + printable(run.message) + '\n';
  }
  return text;
}

std::string dry_run_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  const Json all = Json::parse(to_json(report));
  Json json = Json::object();
  for (const char* name : {"command", "torch_version", "peak_rss_bytes", "rss_bytes_at_start"}) {
    json[name] = all.at(name);
  }
  json["policies"] = all.at("dry_run");
  return json.dump(2) + '\n';
}

}  // namespace cinch::cli
