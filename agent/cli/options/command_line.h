// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

/// The subcommands' options. Each function adds a subcommand to `app`; parsing then carries it out
/// and sets `status`, which has to live as long as the app.
namespace cinch::cli {

/// @param command What came after --: a program's command line
void add_run(CLI::App& app, const std::vector<std::string>& command, int& status);
void add_advise(CLI::App& app, const std::vector<std::string>& command, int& status);
void add_doctor(CLI::App& app, int& status);
void add_env(CLI::App& app, int& status);

void add_watch(CLI::App& app, int& status);
void add_ctl(CLI::App& app, int& status);
void add_agent(CLI::App& app, int& status);

void add_report(CLI::App& app, int& status);
void add_policy(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);

}  // namespace cinch::cli
