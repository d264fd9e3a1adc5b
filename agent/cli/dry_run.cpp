// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/dry_run.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "agent/cli/child.h"
#include "agent/cli/commands.h"
#include "agent/cli/descendant.h"
#include "agent/cli/progress.h"
#include "agent/cli/relay.h"
#include "agent/cli/workplace.h"
#include "agent/telemetry/reader.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using telemetry::Report;

std::vector<std::string> all_presets() {
  std::vector<std::string> names;
  for (const auto& preset : policy::presets()) {
    if (preset.name != "off") names.emplace_back(preset.name);
  }
  return names;
}

/// What is wrong with the policies, or "".
std::string problem_of(const std::vector<std::string>& policies) {
  for (const std::string& name : policies) {
    if (name.find(',') != name.npos) return "a policy's path must not hold a comma: " + name;
    const auto loaded = policy::load_settings(name);
    if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) return error->to_string();
  }
  return "";
}

bool is_complete(const Report& report) {
  return !report.dry_run.empty() &&
         std::ranges::all_of(report.dry_run, [](const auto& run) { return run.measured; });
}

/// The report of a process whose dry run is over, the largest of several.
std::optional<Report> complete_report(const fs::path& directory) {
  for (FoundReport& found : find_reports(directory)) {
    if (is_complete(found.report)) return std::move(found.report);
  }
  return std::nullopt;
}

std::string why_incomplete(const fs::path& directory, const ChildResult& child) {
  const auto reports = find_reports(directory);
  if (child.status != 0) {
    return "the program ended with status " + std::to_string(child.status) +
           " before its second step was over";
  }
  if (reports.empty()) return "no process loaded PyTorch and left a report; try: cinch doctor";
  const Report& report = reports.front().report;
  if (!report.active) return "not active: " + report.inactive_reason;
  return "the program ended before its second step, or saved nothing for a backward";
}

/// How far the dry run is, in words.
std::string stage_of(const fs::path& segments, bool is_known) {
  if (is_known) return "cinch: dry run: all is known";
  std::uint64_t backwards = 0;
  for (const telemetry::Run& run : telemetry::read_runs(segments)) {
    if (run.live) backwards = std::max(backwards, run.live->boundaries);
  }
  if (backwards == 0) return "cinch: dry run: the program has come to no backward yet";
  return "cinch: dry run: backward " + std::to_string(backwards) + ", with trials";
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

DryRunOutcome run_dry(const DryRunRequest& request) {
  const auto failed = [](int status, std::string error) {
    return DryRunOutcome{status, std::nullopt, std::move(error)};
  };
  const std::vector<std::string> policies =
      request.policies.empty() ? all_presets() : request.policies;
  if (std::string problem = problem_of(policies); !problem.empty()) {
    return failed(usage_error, std::move(problem));
  }
  const Libraries libraries = find_libraries();
  if (!libraries.problem.empty()) return failed(usage_error, libraries.problem);
  std::string wanted;
  for (const std::string& name : policies) {
    wanted += (wanted.empty() ? "" : ",") + absolute_policy(name);
  }
  const TemporaryDirectory directory;
  Command command{request.command, {}, ""};
  command.environment = {{"LD_PRELOAD", preload_value(libraries.preload)},
                         {"CINCH_POLICY", "default"},
                         {"CINCH_DRY_RUN", wanted},
                         {"CINCH_DISABLE", ""},
                         {"CINCH_REPORT", (directory.path() / "%p.json").string()},
                         {"CINCH_REPORT_DETAILS", "1"},
                         // Only the progress line reads the segments. A program that ends by
                         // SIGTERM leaves them behind, and they go with this folder.
                         {"CINCH_TELEMETRY_DIR", directory.path().string()}};
  command.output_to_stderr = true;
  Progress progress;
  std::unique_ptr<Relay> relay = Relay::open(progress);
  if (relay != nullptr) command.output_file = relay->file();
  std::optional<Report> report;
  command.look = [&] {
    if (!report) report = complete_report(directory.path());
    if (progress.active()) progress.show_with_time(stage_of(directory.path(), report.has_value()));
    if (!report || request.keep_running) return false;
    // Under a shell or torchrun the training process is not our child: signal it as well.
    for (const FoundReport& found : find_reports(directory.path())) {
      signal_descendant({geteuid(), static_cast<std::uint64_t>(found.report.pid),
                         found.report.start_ticks, found.report.pid_namespace},
                        SIGTERM);
    }
    return true;
  };
  const ChildResult child = run_child(command);
  relay.reset();
  progress.clear();
  if (!child.started) return failed(child.status, child.error);
  if (!report) report = complete_report(directory.path());
  if (report) return {request.keep_running ? child.status : 0, std::move(report), ""};
  return failed(child.status == 0 ? 1 : child.status, why_incomplete(directory.path(), child));
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
