// SPDX-License-Identifier: Apache-2.0
// cinch ctl: has running programs change what they do.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>

#include <nlohmann/json.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/text.h"
#include "agent/telemetry/ask.h"
#include "agent/telemetry/reader.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

using telemetry::Reply;
using telemetry::Run;

// The processes that `target` names: one by its number, or all of a job.
std::vector<Run> runs_of(const std::string& target) {
  auto runs = telemetry::read_runs(telemetry::segment_directory());
  std::erase_if(runs, [&](const Run& run) {
    const bool named = std::to_string(run.process.pid) == target ||
                       telemetry::job_of(run) == target || run.identity.job.chars == target ||
                       run.identity.master.chars == target;
    return !named || run.state == telemetry::RunState::gone ||
           run.state == telemetry::RunState::unreadable;
  });
  return runs;
}

// The argument of Command::policy; nothing for a wrong policy, and then stderr says why.
std::optional<std::string> policy_argument(const std::string& name) {
  const auto refused = [](const policy::PolicyError& error) {
    say(error.to_string());
    return std::nullopt;
  };
  const auto text = policy::policy_text(name);
  if (const auto* error = std::get_if<policy::PolicyError>(&text)) return refused(*error);
  const auto& found = std::get<std::string>(text);
  const auto parsed = policy::parse_settings(found, name);
  if (const auto* error = std::get_if<policy::PolicyError>(&parsed)) return refused(*error);
  return name + '\0' + found;
}

struct Asked {
  telemetry::Command command;
  std::string argument;
};

std::optional<Asked> asked_by(const CtlOptions& options) {
  if (!options.policy.empty()) {
    auto argument = policy_argument(options.policy);
    if (!argument) return std::nullopt;
    return Asked{telemetry::Command::policy, *std::move(argument)};
  }
  if (options.budget != 0) return Asked{telemetry::Command::budget, std::to_string(options.budget)};
  if (options.empty_cache) return Asked{telemetry::Command::empty_cache, ""};
  if (options.pause) return Asked{telemetry::Command::pause, ""};
  if (options.resume) return Asked{telemetry::Command::resume, ""};
  // Absolute, since the program may have another working directory.
  return Asked{telemetry::Command::snapshot, std::filesystem::absolute(options.snapshot).string()};
}

}  // namespace

int ctl(const CtlOptions& options) {
  const auto asked = asked_by(options);
  if (!asked) return usage_error;
  const std::vector<Run> runs = runs_of(options.target);
  if (runs.empty()) {
    std::fprintf(stderr,
                 "cinch: found no program of yours called \"%s\" that trains under Cinch, expected "
                 "a process's number or a job's name (cinch watch --once)\n",
                 options.target.c_str());
    return 1;
  }
  const bool snapshot = asked->command == telemetry::Command::snapshot;
  if (snapshot && runs.size() > 1 && asked->argument.find("%p") == std::string::npos) {
    std::fprintf(stderr,
                 "cinch: found one file for the snapshots of %zu processes, expected %%p in its "
                 "name\n",
                 runs.size());
    return usage_error;
  }
  std::vector<std::future<Reply>> replies;
  for (const Run& run : runs) {
    replies.push_back(std::async(std::launch::async, [&, process = run.process] {
      return telemetry::ask(
          telemetry::segment_directory(), process, asked->command,
          snapshot ? telemetry::with_pid(asked->argument, process.pid) : asked->argument,
          options.timeout);
    }));
  }
  bool all_done = true;
  auto answers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Reply reply = replies[i].get();
    const Run& run = runs[i];
    all_done = all_done && reply.outcome == Reply::Outcome::done;
    const std::string outcome(telemetry::word(reply.outcome));
    if (options.json) {
      answers.push_back({{"pid", run.process.pid},
                         {"rank", run.identity.rank},
                         {"outcome", outcome},
                         {"words", reply.words}});
      continue;
    }
    const std::string rank =
        run.identity.rank < 0 ? "" : " (rank " + std::to_string(run.identity.rank) + ")";
    std::printf("%llu%s: %s: %s\n", static_cast<unsigned long long>(run.process.pid), rank.c_str(),
                outcome.c_str(), printable(reply.words).c_str());
  }
  if (options.json) {
    const nlohmann::ordered_json document = {{"version", 1}, {"answers", answers}};
    std::printf("%s\n",
                document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return all_done ? 0 : 1;
}

}  // namespace cinch::cli
