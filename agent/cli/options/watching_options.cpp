// SPDX-License-Identifier: Apache-2.0
// Options of what looks at programs that run, and changes them.

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/options/command_line.h"

namespace cinch::cli {

void add_watch(CLI::App& app, int& status) {
  const auto options = std::make_shared<WatchOptions>();
  CLI::App* sub = app.add_subcommand("watch", "See your programs train under Cinch, live");
  sub->add_option("PID", options->pid, "Only this process, its details first");
  sub->add_option("--interval,-i", options->interval, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  sub->add_flag("--once", options->once, "Print how things are as plain text, and end");
  sub->add_flag("--json", options->json, "Print how things are as JSON, and end");
  sub->footer(
      "Examples:\n"
      "  cinch watch                  all of your processes, by torchrun job and rank\n"
      "  cinch watch 4711             one of them\n"
      "  cinch watch --once           for logs; so too when the output is no terminal\n"
      "  cinch watch --json | jq '.runs[].live.ratio'\n"
      "Press h in it for its keys. Exit status 1: the process is not there.");
  sub->callback([options, &status] { status = watch(*options); });
}

void add_ctl(CLI::App& app, int& status) {
  const auto options = std::make_shared<CtlOptions>();
  CLI::App* sub =
      app.add_subcommand("ctl", "Have a running program change its policy, pause, or give memory");
  sub->add_option("TARGET", options->target, "A process's number, or a job's name (cinch watch)")
      ->required();
  CLI::Option_group* what = sub->add_option_group("what", "What it shall do, one of");
  what->add_option("--policy,-p", options->policy, "Follow this policy: a preset's name or a file")
      ->type_name("POLICY");
  what->add_option("--budget", options->budget,
                   "Hold at most so many bytes of activations, such as 6GiB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  what->add_flag("--empty-cache", options->empty_cache, "Give memory that nobody uses back");
  what->add_option("--snapshot", options->snapshot,
                   "Write a snapshot of CUDA's allocator, as torch's memory_viz opens it, to this\n"
                   "file; %p stands for the process's number")
      ->type_name("FILE.pickle");
  what->add_flag("--pause", options->pause, "Leave what is saved from now on to PyTorch");
  what->add_flag("--resume", options->resume, "No longer");
  what->require_option(1);
  sub->add_option("--timeout", options->timeout, "Seconds to wait for an answer")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  sub->add_flag("--json", options->json, "Print JSON");
  sub->footer(
      "Examples:\n"
      "  cinch ctl 4711 --budget 6GiB\n"
      "  cinch ctl 4711 --policy my.json       checked as strictly as at the start\n"
      "  cinch ctl my-job --pause              all ranks of a torchrun job\n"
      "  cinch ctl 4711 --empty-cache\n"
      "A program does what it is asked when a step begins or ends, and says so. Exit status: 0 "
      "when "
      "all\n"
      "of them did; 1 when one did not; 2 when the policy is wrong, and then nobody is asked.");
  sub->callback([options, &status] { status = ctl(*options); });
}

void add_agent(CLI::App& app, int& status) {
  const auto options = std::make_shared<AgentOptions>();
  CLI::App* sub = app.add_subcommand(
      "agent", "Keep the history of your runs, and serve metrics, JSON and a live page");
  sub->add_option("--listen,-l", options->listen, "Where to listen; port 0: any that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  sub->add_option("--history", options->history,
                  "The history's file; default: $XDG_STATE_HOME/cinch/history.sqlite")
      ->type_name("FILE");
  sub->add_option("--interval,-i", options->interval, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  sub->footer(
      "Examples:\n"
      "  cinch agent                                   then see http://127.0.0.1:9464/\n"
      "  curl 127.0.0.1:9464/metrics                   for Prometheus\n"
      "  CINCH_AGENT_TOKEN=secret cinch agent --listen 0.0.0.0:9464\n"
      "With CINCH_AGENT_TOKEN in its environment, readers have to send it (Authorization: "
      "Bearer);\n"
      "where others than this machine can reach the agent, it has to be set.\n"
      "Exit status: 0 after SIGINT, SIGTERM or SIGHUP; 2 when it cannot start.");
  sub->callback([options, &status] { status = agent(*options); });
}

}  // namespace cinch::cli
