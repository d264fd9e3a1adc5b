// SPDX-License-Identifier: Apache-2.0
// cinch env: prints the environment that Cinch needs, for programs that cinch run can't start.

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "agent/cli/commands.h"
#include "agent/cli/text.h"
#include "agent/cli/workplace.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

/// `text` as one word for a POSIX shell.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + '\'';
}

/// `text` as one word for fish, where a backslash is special inside quotes.
std::string quoted_for_fish(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    word += c;
  }
  return word + '\'';
}

}  // namespace

int print_environment(const EnvOptions& options) {
  const Libraries libraries = find_libraries();
  std::string problem = libraries.problem;
  const auto loaded = policy::load_settings(options.policy);
  if (const auto* error = std::get_if<policy::PolicyError>(&loaded)) problem = error->to_string();
  if (!problem.empty()) {
    say(problem);
    return usage_error;
  }
  std::vector<std::pair<std::string, std::string>> variables = {
      {"LD_PRELOAD", preload_value(libraries.preload)},
      {"CINCH_POLICY", absolute_policy(options.policy)}};
  if (!options.report.empty()) {
    variables.emplace_back("CINCH_REPORT", std::filesystem::absolute(options.report).string());
  }
  for (const auto& [name, value] : variables) {
    if (options.format == "fish") {
      std::printf("set -gx %s %s\n", name.c_str(), quoted_for_fish(value).c_str());
    } else if (options.format == "plain") {
      std::printf("%s=%s\n", name.c_str(), value.c_str());
    } else {
      std::printf("export %s=%s\n", name.c_str(), quoted(value).c_str());
    }
  }
  return 0;
}

}  // namespace cinch::cli
