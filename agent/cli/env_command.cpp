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
      std::printf("set -gx %s %s\n", name.c_str(), quoted(value, Shell::fish).c_str());
    } else if (options.format == "plain") {
      std::printf("%s=%s\n", name.c_str(), value.c_str());
    } else {
      std::printf("export %s=%s\n", name.c_str(), quoted(value, Shell::posix).c_str());
    }
  }
  return 0;
}

}  // namespace cinch::cli
