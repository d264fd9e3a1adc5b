// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/short_run.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <variant>

#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/program/child.h"
#include "agent/cli/program/descendant.h"
#include "agent/cli/program/relay.h"
#include "agent/cli/progress.h"
#include "agent/cli/workplace.h"
#include "agent/telemetry/reader.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using telemetry::Report;

std::optional<Report> complete_report(const ShortRun& run, const fs::path& directory) {
  for (FoundReport& found : find_reports(directory)) {
    if (run.is_complete(found.report)) return std::move(found.report);
  }
  return std::nullopt;
}

std::string why_incomplete(const ShortRun& run, const fs::path& directory,
                           const ChildResult& child) {
  if (child.status != 0) {
    return "the program ended with status " + std::to_string(child.status) + " before " + run.until;
  }
  const auto reports = find_reports(directory);
  if (reports.empty()) return "no process loaded PyTorch and left a report; try: cinch doctor";
  const Report& report = reports.front().report;
  if (!report.active) return "not active: " + report.inactive_reason;
  const bool saved = report.rss_bytes_at_start != 0;
  return saved ? "the program ended before " + run.until
               : "the program saved nothing for a backward that Cinch could hold";
}

std::string stage_of(const ShortRun& run, const fs::path& segments) {
  std::optional<telemetry::LiveFigures> farthest;
  for (const telemetry::Run& each : telemetry::read_runs(segments)) {
    if (each.live && (!farthest || each.live->boundaries > farthest->boundaries)) {
      farthest = *each.live;
    }
  }
  return run.stage(farthest ? &*farthest : nullptr);
}

/// Under a shell or torchrun the training process is not our child: signals it as well.
void end_trainings(const fs::path& directory) {
  for (const FoundReport& found : find_reports(directory)) {
    signal_descendant({geteuid(), static_cast<std::uint64_t>(found.report.pid),
                       found.report.start_ticks, found.report.pid_namespace},
                      SIGTERM);
  }
}

}  // namespace

std::vector<std::string> or_all_presets(const std::vector<std::string>& policies) {
  if (!policies.empty()) return policies;
  std::vector<std::string> names;
  for (const auto& preset : policy::presets()) {
    if (preset.name != "off") names.emplace_back(preset.name);
  }
  return names;
}

std::string problem_of(const std::vector<std::string>& policies) {
  for (const std::string& name : policies) {
    if (name.find(',') != name.npos) return "a policy's path must not hold a comma: " + name;
    const auto loaded = policy::load_settings(name);
    if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) return error->to_string();
  }
  return "";
}

ShortRunOutcome run_short(const ShortRun& run) {
  const auto failed = [](int status, std::string error) {
    return ShortRunOutcome{status, std::nullopt, std::move(error)};
  };
  const Libraries libraries = find_libraries();
  if (!libraries.problem.empty()) return failed(usage_error, libraries.problem);
  const TemporaryDirectory directory;
  Command command{run.command, {}, ""};
  command.environment = {{"LD_PRELOAD", preload_value(libraries.preload)},
                         {"CINCH_DISABLE", ""},
                         {"CINCH_REPORT", (directory.path() / "%p.json").string()},
                         // Only the progress line reads the segments. A program that ends by
                         // SIGTERM leaves them behind, and they go with this folder.
                         {"CINCH_TELEMETRY_DIR", directory.path().string()}};
  command.environment.insert(command.environment.end(), run.environment.begin(),
                             run.environment.end());
  command.output_to_stderr = true;
  Progress progress;
  std::unique_ptr<Relay> relay = Relay::open(progress);
  if (relay != nullptr) command.output_file = relay->file();
  std::optional<Report> report;
  command.look = [&] {
    if (!report) report = complete_report(run, directory.path());
    if (progress.active()) progress.show_with_time(stage_of(run, directory.path()));
    if (!report || run.keep_running) return false;
    end_trainings(directory.path());
    return true;
  };
  const ChildResult child = run_child(command);
  relay.reset();
  progress.clear();
  if (!child.started) return failed(child.status, child.error);
  if (!report) report = complete_report(run, directory.path());
  if (report) return {run.keep_running ? child.status : 0, std::move(report), ""};
  return failed(child.status == 0 ? 1 : child.status, why_incomplete(run, directory.path(), child));
}

}  // namespace cinch::cli
