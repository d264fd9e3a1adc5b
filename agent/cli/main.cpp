// SPDX-License-Identifier: Apache-2.0
// The command line of `cinch`. Each subcommand is implemented in a file of its own.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/options/command_line.h"
#include "agent/cli/options/completion.h"
#include "agent/cli/text.h"

namespace cinch::cli {
namespace {

constexpr const char* examples = R"--(Examples:
  cinch doctor                                  does Cinch work with my Python?
  cinch run -- python train.py                  train in a fraction of the memory
  cinch run --policy lossless -- python a.py    approximate nothing
  cinch run --report r.json -- python train.py  keep the report, then: cinch report r.json
  cinch run --dry-run -- python train.py        which policy would save how much?
  cinch report a.json b.json                    compare two runs
  cinch report r.json --html r.html             a page for the browser
  cinch advise policy -- python train.py        which policy suits it?
  cinch advise batch-size -- python train.py    how large may batches be?
  cinch watch                                   what my programs under Cinch are doing now
  cinch ctl 4711 --budget 6GiB                  have one of them take less, while it runs
  cinch agent                                   keep their history; serve it, metrics, a live page
  eval "$(cinch env)"                           for what cinch run can't start
  cinch policy list                             ready policies
  cinch policy show default > my.json           start a policy of your own
  cinch policy check my.json                    is it right?

The same without this command:
  LD_PRELOAD=.../libcinch.so CINCH_POLICY=default python train.py)--";

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* sub =
      app.add_subcommand("completion", "Print a script that completes cinch's command line");
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->footer(R"--(Examples:
  eval "$(cinch completion bash)"     # in ~/.bashrc
  eval "$(cinch completion zsh)"      # in ~/.zshrc
  cinch completion fish | source      # in ~/.config/fish/config.fish)--");
  sub->callback([&app, shell] { std::fputs(completion(app, *shell).c_str(), stdout); });
}

void add_manual(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("man", "Print the manual page");
  sub->footer(R"(Examples:
  cinch man | man -l -
  cinch man > ~/.local/share/man/man1/cinch.1)");
  sub->callback([&app] { std::fputs(manual(app, CINCH_VERSION).c_str(), stdout); });
}

int main(std::vector<std::string> arguments) {
  int status = 0;
  // Everything after -- is the program's command line.
  std::vector<std::string> command;
  if (const auto split = std::ranges::find(arguments, "--"); split != arguments.end()) {
    command.assign(split + 1, arguments.end());
    arguments.erase(split, arguments.end());
  }
  CLI::App app("cinch: train PyTorch programs, unmodified, in a fraction of the memory", "cinch");
  app.set_version_flag("--version", "cinch " CINCH_VERSION);
  app.require_subcommand(1);
  app.footer(examples);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return with_prefix(error.what()) + with_prefix("for the options, add --help");
  });
  add_run(app, command, status);
  add_advise(app, command, status);
  add_watch(app, status);
  add_ctl(app, status);
  add_agent(app, status);
#ifdef CINCH_REPLAY
  add_replay(app, status);
#endif
  add_policy(app, status);
  add_report(app, status);
  add_doctor(app, status);
  add_env(app, status);
  add_completion(app);
  add_manual(app);

  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  }
  return status;
}

}  // namespace
}  // namespace cinch::cli

int main(int count, char** arguments) {
  int status = cinch::cli::usage_error;
  try {
    status = cinch::cli::main({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    cinch::cli::say(error.what());
  }
  // Output may still be buffered: a failure to write it must be reported.
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return status;
  cinch::cli::say("cannot write to stdout: " + std::string(std::strerror(errno)));
  return status == 0 ? 1 : status;
}
