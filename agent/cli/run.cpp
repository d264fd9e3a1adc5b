// SPDX-License-Identifier: Apache-2.0
// cinch run: runs a program with libcinch.so preloaded, and prints a summary at its end.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/program/child.h"
#include "agent/cli/program/dry_run.h"
#include "agent/cli/report/render.h"
#include "agent/cli/text.h"
#include "agent/cli/workplace.h"
#include "agent/telemetry/process.h"
#include "files/write_file.h"
#include "policy/algorithms/algorithm.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;

/// `path` with all links resolved; the result need not exist.
fs::path behind_links(const fs::path& path) {
  std::error_code fault;
  const fs::path whole = fs::absolute(path);
  const fs::path end = fs::weakly_canonical(whole, fault);
  return fault ? whole : end;
}

/// Why no report can be written to `path`, or "".
std::string report_problem(const std::string& path) {
  if (path.empty()) return "";
  if (fs::is_directory(path)) return "cannot write the report " + path + ": it is a directory";
  // As files::write_file does: a regular file is replaced, anything else is written to as it is.
  std::error_code fault;
  const bool is_replaced = !fs::exists(path, fault) || fs::is_regular_file(path, fault);
  const fs::path end = is_replaced ? behind_links(path) : fs::path(path);
  if (access((is_replaced ? end.parent_path() : end).c_str(), W_OK) != 0) {
    return "cannot write the report " + path + ": " + strerror(errno);
  }
  return "";
}

void keep_report(const FoundReport& found, const std::string& path) {
  if (path.empty()) return;
  const std::string problem =
      files::write_file(read_file(found.file),
                        telemetry::with_pid(path, static_cast<std::uint64_t>(found.report.pid)));
  if (!problem.empty()) say("no report: " + problem);
}

/// Says, in red, that there is no report, with the likely reason.
void say_inactive(const ChildResult& child) {
  std::string why;
  if (child.status > 128) {
    why = "the program was killed by signal " + std::to_string(child.status - 128) +
          " before it could leave a report";
    if (child.status == 128 + 9) why += " (out of memory?)";
  } else {
    why =
        "no process loaded PyTorch and left a report; a statically linked or setuid program, a "
        "cleared environment or os._exit() are other reasons";
  }
  say_loudly("NOT ACTIVE: " + why + "; try: cinch doctor");
}

void report_end(const RunOptions& options, const ChildResult& child, const fs::path& directory) {
  const Style style{colour_wanted(STDERR_FILENO)};
  const auto reports = find_reports(directory);
  if (reports.empty()) return say_inactive(child);
  const FoundReport& main = reports.front();
  // With "%p" in the name all reports are kept, else only the main one.
  const std::size_t kept = options.report.find("%p") == std::string::npos ? 1 : reports.size();
  for (std::size_t i = 0; i < kept; ++i) keep_report(reports[i], options.report);
  if (options.quiet && main.report.active) return;
  std::fputs(render_summary(main.report, style).c_str(), stderr);
  if (reports.size() > 1) {
    std::uint64_t raw = 0;
    for (std::size_t i = 1; i < reports.size(); ++i) raw += reports[i].report.raw_bytes_at_peak;
    say(std::to_string(reports.size() - 1) + " more of its processes used PyTorch, with " +
        human_bytes(raw) + " at their peaks");
  }
}

int dry_run(const RunOptions& options) {
  const ShortRunOutcome outcome =
      run_dry({options.policies, options.command, options.keep_running});
  if (!outcome.report) {
    say("no dry run: " + outcome.error);
    return outcome.status;
  }
  const Style style{colour_wanted(STDOUT_FILENO)};
  const std::string text =
      options.json ? dry_run_json(*outcome.report) : render_dry_run(*outcome.report, style);
  std::fputs(text.c_str(), stdout);
  return outcome.status;
}

}  // namespace

int run(const RunOptions& options) {
  if (options.command.empty()) {
    say("found no program to run, expected: cinch run [options] -- PROGRAM [arguments]");
    return usage_error;
  }
  if (options.dry_run) return dry_run(options);
  const auto loaded = policy::load_settings(options.policy);
  if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) {
    say(error->to_string());
    return usage_error;
  }
  const Libraries libraries = find_libraries();
  for (const std::string& problem : {libraries.problem, report_problem(options.report)}) {
    if (problem.empty()) continue;
    say(problem);
    return usage_error;
  }
  const TemporaryDirectory directory;
  Command command{options.command, {}, ""};
  command.environment = {{"LD_PRELOAD", preload_value(libraries.preload)},
                         {"CINCH_POLICY", absolute_policy(options.policy)},
                         {"CINCH_REPORT", (directory.path() / "%p.json").string()},
                         {"CINCH_REPORT_DETAILS", options.report.empty() ? "0" : "1"}};
  const std::string snapshot =
      options.snapshot.empty() ? "" : fs::absolute(options.snapshot).string();
  if (!snapshot.empty()) {
    // Remove an old file, so that a file found afterwards is this run's. A device or a link stays.
    std::error_code ignored;
    const fs::path end = behind_links(snapshot);
    if (fs::is_regular_file(end, ignored)) fs::remove(end, ignored);
    command.environment.emplace_back("CINCH_SNAPSHOT", snapshot);
  }
  if (options.strict) command.environment.emplace_back("CINCH_STRICT", "1");
  if (options.disable) command.environment.emplace_back("CINCH_DISABLE", "1");
  if (options.no_telemetry) command.environment.emplace_back("CINCH_TELEMETRY", "0");

  const ChildResult child = run_child(command);
  if (!child.started) {
    say(child.error);
    return child.status;
  }
  if (!snapshot.empty() && snapshot.find("%p") == snapshot.npos && !fs::exists(snapshot)) {
    say("no snapshot: the program used no CUDA memory, or no optimizer of torch.optim");
  }
  const bool meant_inactive =
      options.disable || policy::algorithm_of(std::get<policy::Settings>(loaded)).idle;
  if (!meant_inactive) report_end(options, child, directory.path());
  return child.status;
}

}  // namespace cinch::cli
