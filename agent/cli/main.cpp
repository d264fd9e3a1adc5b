// SPDX-License-Identifier: Apache-2.0
// The command line of `cinch`. Each subcommand is implemented in a file of its own.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include <CLI/CLI.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/completion.h"
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

/// Without --, the program begins at the first word that is no option of ours. `command` is empty,
/// or holds what came after --.
/// @throws CLI::ExtrasError for words that are no part of a program's command line
void take_program(const CLI::App& sub, std::vector<std::string>& command) {
  const std::vector<std::string> rest = sub.remaining();
  if (rest.empty()) return;
  if (!command.empty() || rest[0][0] == '-') {
    throw CLI::ExtrasError(std::vector<std::string>{rest.front()});
  }
  command = rest;
}

void add_dry_run_options(CLI::App& sub, RunOptions& options) {
  CLI::Option* dry = sub.add_flag(
      "--dry-run", options.dry_run,
      "Train two steps uncompressed, print what policies would store, and end the program");
  sub.add_option("--policies", options.policies,
                 "A dry run's policies; default: all that ship but off")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("POLICY,...")
      ->needs(dry);
  sub.add_flag("--json", options.json, "A dry run's result as JSON")->needs(dry);
  sub.add_flag("--keep-running", options.keep_running,
               "After a dry run let the program go on, uncompressed, to its own end")
      ->needs(dry);
}

void add_run(CLI::App& app, RunOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand("run", "Run a program with its activations compressed");
  sub->add_option("--policy,-p", options.policy, "A preset's name (cinch policy list) or a file")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_option(
         "--report,-r", options.report,
         "Keep the report of what was saved in this file: of the process that saved most,\n"
         "or, with %p for a process's number, one of each")
      ->envname("CINCH_REPORT")
      ->type_name("FILE.json");
  sub->add_option(
         "--snapshot", options.snapshot,
         "Keep a snapshot of CUDA's allocator, as torch's memory_viz opens it, in this file:\n"
         "at the end, and when memory runs out")
      ->envname("CINCH_SNAPSHOT")
      ->type_name("FILE.pickle");
  sub->add_flag("--strict", options.strict,
                "Stop the program rather than run it uncompressed when Cinch cannot start")
      ->envname("CINCH_STRICT");
  sub->add_flag("--disable", options.disable, "Run the program as without Cinch")
      ->envname("CINCH_DISABLE");
  sub->add_flag("--no-telemetry", options.no_telemetry,
                "Don't show the program to cinch watch and cinch agent");
  sub->add_flag("--quiet,-q", options.quiet, "No summary at the end unless Cinch was not active");
  add_dry_run_options(*sub, options);
  sub->footer(
      "Usage: cinch run [OPTIONS] -- PROGRAM [ARGUMENTS...]\n\n"
      "Examples:\n"
      "  cinch run -- python train.py\n"
      "  cinch run --snapshot s.pickle -- python train.py    # then python -m "
      "torch.cuda._memory_viz\n"
      "  cinch run --policy lossless --report r.json -- torchrun --nproc-per-node=2 train.py\n"
      "  cinch run --dry-run --policies default,my.json -- python train.py\n"
      "  cinch run --dry-run --json -- python train.py | jq '.policies[] | {policy, ratio}'\n\n"
      "The exit status is the program's; 128 + N when signal N killed it; 127 or 126 when it\n"
      "could not be started; 2 when the policy is wrong, and then the program is not started.\n"
      "A dry run's is 0 when it has a result; what its program prints goes to stderr.");
  sub->prefix_command();  // for take_program
  sub->callback([sub, &options, &status] {
    take_program(*sub, options.command);
    if (options.policies.empty() && sub->count("--policy") != 0) {
      options.policies.push_back(options.policy);
    }
    status = run(options);
  });
}

void add_advise(CLI::App& app, AdviseOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand("advise", "Advice from a short run of a program");
  sub->require_subcommand(1);
  sub->footer("Examples:\n  cinch advise batch-size --memory 8GiB -- python train.py");
  CLI::App* batch = sub->add_subcommand(
      "batch-size", "The largest batch size that fits into memory, with each policy");
  batch
      ->add_option("--memory", options.memory,
                   "What training may use, such as 8GiB; default: the memory available now")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  batch
      ->add_option("--policies", options.policies, "Which policies; default: all that ship but off")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("POLICY,...");
  batch
      ->add_option("--batch", options.batch,
                   "The program's batch size, where it can't be seen from its activations")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  batch->add_option("--max", options.most, "No larger batch sizes than this")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  batch->add_flag("--json", options.json, "Print JSON");
  batch->footer(R"(Examples:
  cinch advise batch-size -- python train.py
  cinch advise batch-size --memory 8GiB --policies default,my.json -- python train.py --batch 64
  cinch advise batch-size --json -- python train.py | jq '.policies[] | {policy, batch_size}'

The program is trained uncompressed for two or three steps and then ended; what it prints goes to
stderr. Sizes are powers of two, with 5 % of the memory kept free.)");
  batch->prefix_command();  // for take_program
  batch->callback([batch, &options, &status] {
    take_program(*batch, options.command);
    status = advise_batch_size(options);
  });
}

#ifdef CINCH_REPLAY
void add_replay(CLI::App& app, ReplayOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand(
      "replay", "Run recorded allocations through Cinch's allocator and models of PyTorch's");
  sub->add_option("FILE", options.files, "Traces, or memory snapshots that PyTorch pickled")
      ->required();
  sub->add_option("--memory", options.memory,
                  "Bytes of the device that is pretended, such as 24GiB")
      ->transform(CLI::AsSizeValue(false));
  sub->add_option("--write", options.write, "Only write the trace, compressed, to this file")
      ->type_name("OUT");
  sub->add_flag("--json", options.json, "Print JSON");
  sub->footer(R"(Examples:
  cinch replay run.trace
  cinch replay --memory 24GiB snapshot.pickle
  cinch replay --write run.trace snapshot.pickle)");
  sub->callback([&options, &status] {
    if (!options.write.empty() && options.files.size() != 1) {
      throw CLI::ValidationError("--write", "takes one FILE");
    }
    status = replay(options);
  });
}
#endif

void add_watch(CLI::App& app, WatchOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand("watch", "See your programs train under Cinch, live");
  sub->add_option("PID", options.pid, "Only this process, its details first");
  sub->add_option("--interval,-i", options.interval, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  sub->add_flag("--once", options.once, "Print how things are as plain text, and end");
  sub->add_flag("--json", options.json, "Print how things are as JSON, and end");
  sub->footer(
      "Examples:\n"
      "  cinch watch                  all of your processes, by torchrun job and rank\n"
      "  cinch watch 4711             one of them\n"
      "  cinch watch --once           for logs; so too when the output is no terminal\n"
      "  cinch watch --json | jq '.runs[].live.ratio'\n"
      "Press h in it for its keys. Exit status 1: the process is not there.");
  sub->callback([&options, &status] { status = watch(options); });
}

void add_ctl(CLI::App& app, CtlOptions& options, int& status) {
  CLI::App* sub =
      app.add_subcommand("ctl", "Have a running program change its policy, pause, or give memory");
  sub->add_option("TARGET", options.target, "A process's number, or a job's name (cinch watch)")
      ->required();
  CLI::Option_group* what = sub->add_option_group("what", "What it shall do, one of");
  what->add_option("--policy,-p", options.policy, "Follow this policy: a preset's name or a file")
      ->type_name("POLICY");
  what->add_option("--budget", options.budget,
                   "Hold at most so many bytes of activations, such as 6GiB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  what->add_flag("--empty-cache", options.empty_cache, "Give memory that nobody uses back");
  what->add_option("--snapshot", options.snapshot,
                   "Write a snapshot of CUDA's allocator, as torch's memory_viz opens it, to this\n"
                   "file; %p stands for the process's number")
      ->type_name("FILE.pickle");
  what->add_flag("--pause", options.pause, "Leave what is saved from now on to PyTorch");
  what->add_flag("--resume", options.resume, "No longer");
  what->require_option(1);
  sub->add_option("--timeout", options.timeout, "Seconds to wait for an answer")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  sub->add_flag("--json", options.json, "Print JSON");
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
  sub->callback([&options, &status] { status = ctl(options); });
}

void add_agent(CLI::App& app, AgentOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand(
      "agent", "Keep the history of your runs, and serve metrics, JSON and a live page");
  sub->add_option("--listen,-l", options.listen, "Where to listen; port 0: any that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  sub->add_option("--history", options.history,
                  "The history's file; default: $XDG_STATE_HOME/cinch/history.sqlite")
      ->type_name("FILE");
  sub->add_option("--interval,-i", options.interval, "Seconds between two looks")
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
  sub->callback([&options, &status] { status = agent(options); });
}

void add_report(CLI::App& app, ReportOptions& options, int& status) {
  CLI::App* sub =
      app.add_subcommand("report", "Show a report that cinch run --report kept, or compare two");
  sub->add_option("FILE", options.file, "The report")->required();
  CLI::Option* other = sub->add_option("OTHER", options.other, "A report to compare it with");
  sub->add_option("--html", options.html, "Write it as one self-contained page to this file")
      ->type_name("OUT.html")
      ->excludes(other);
  sub->footer(R"(Examples:
  cinch report r.json                    all that the report holds
  cinch report before.json after.json    two runs beside each other
  cinch report r.json --html r.html      a page for the browser, which needs no network)");
  sub->callback([&options, &status] { status = show_report(options); });
}

void add_doctor(CLI::App& app, DoctorOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand("doctor", "Find out whether Cinch works here, or why not");
  sub->add_option("--python", options.python, "The Python to examine")
      ->type_name("PYTHON")
      ->capture_default_str();
  sub->add_option("--policy,-p", options.policy, "The policy that is meant to be used")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_flag("--json", options.json, "Print JSON");
  sub->footer(R"(Examples:
  cinch doctor                           the python3 of this shell
  cinch doctor --python .venv/bin/python --policy my.json
  cinch doctor --json | jq '.checks[] | select(.status != "ok")'

The exit status is 0 when nothing failed, else 1. Notes are no failures.)");
  sub->callback([&options, &status] { status = doctor(options); });
}

void add_env(CLI::App& app, EnvOptions& options, int& status) {
  CLI::App* sub = app.add_subcommand(
      "env", "Print the environment for programs that cinch run can't start (Slurm, Docker)");
  sub->add_option("--policy,-p", options.policy, "A preset's name (cinch policy list) or a file")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_option("--report,-r", options.report,
                  "Where each process leaves its report; %p stands for its number")
      ->type_name("FILE.json");
  sub->add_option("--format", options.format, "sh, fish, or plain: NAME=VALUE")
      ->check(CLI::IsMember({"sh", "fish", "plain"}))
      ->capture_default_str();
  sub->footer(R"--(Examples:
  eval "$(cinch env --policy default)" && torchrun --nproc-per-node=8 train.py
  cinch env --format fish | source
  cinch env --format plain > cinch.env && docker run --env-file cinch.env ...)--");
  sub->callback([&options, &status] { status = print_environment(options); });
}

void add_completion(CLI::App& app, std::string& shell) {
  CLI::App* sub =
      app.add_subcommand("completion", "Print a script that completes cinch's command line");
  sub->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->footer(R"--(Examples:
  eval "$(cinch completion bash)"     # in ~/.bashrc
  eval "$(cinch completion zsh)"      # in ~/.zshrc
  cinch completion fish | source      # in ~/.config/fish/config.fish)--");
  sub->callback([&app, &shell] { std::fputs(completion(app, shell).c_str(), stdout); });
}

void add_manual(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("man", "Print the manual page");
  sub->footer(R"(Examples:
  cinch man | man -l -
  cinch man > ~/.local/share/man/man1/cinch.1)");
  sub->callback([&app] { std::fputs(manual(app, CINCH_VERSION).c_str(), stdout); });
}

void add_policy(CLI::App& app, std::string& argument, int& status) {
  CLI::App* sub = app.add_subcommand("policy", "Check, explain, list and show policies");
  sub->require_subcommand(1);
  sub->footer(R"(Examples:
  cinch policy list
  cinch policy show default > my.json
  cinch policy check my.json && cinch policy explain my.json)");
  CLI::App* check = sub->add_subcommand("check", "Is this policy right? Exit 0, or 2 and why not");
  check->add_option("POLICY", argument, "A file or a preset's name")->required();
  check->footer("Examples:\n  cinch policy check my.json");
  check->callback([&] { status = check_policy(argument); });
  CLI::App* words = sub->add_subcommand("explain", "Say in words what a policy does");
  words->add_option("POLICY", argument, "A file or a preset's name")->required();
  words->footer("Examples:\n  cinch policy explain actnn");
  words->callback([&] { status = explain_policy(argument); });
  CLI::App* list = sub->add_subcommand("list", "The policies that ship with Cinch");
  list->footer("Examples:\n  cinch policy list");
  list->callback([&status] { status = list_policies(); });
  CLI::App* show = sub->add_subcommand("show", "Print a shipped policy's file");
  show->add_option("NAME", argument, "The preset's name")->required();
  show->footer("Examples:\n  cinch policy show default > my.json");
  show->callback([&] { status = show_policy(argument); });
}

int main(std::vector<std::string> arguments) {
  int status = 0;
  RunOptions options;
  AdviseOptions advise_options;
  // Everything after -- is the program's command line.
  if (const auto split = std::ranges::find(arguments, "--"); split != arguments.end()) {
    options.command.assign(split + 1, arguments.end());
    advise_options.command = options.command;
    arguments.erase(split, arguments.end());
  }
  CLI::App app("cinch: train PyTorch programs, unmodified, in a fraction of the memory", "cinch");
  app.set_version_flag("--version", "cinch " CINCH_VERSION);
  app.require_subcommand(1);
  app.footer(examples);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return with_prefix(error.what()) + with_prefix("for the options, add --help");
  });
  add_run(app, options, status);
  add_advise(app, advise_options, status);
  WatchOptions watch_options;
  add_watch(app, watch_options, status);
  CtlOptions ctl_options;
  add_ctl(app, ctl_options, status);
  AgentOptions agent_options;
  add_agent(app, agent_options, status);
#ifdef CINCH_REPLAY
  ReplayOptions replay_options;
  add_replay(app, replay_options, status);
#endif
  std::string policy;
  add_policy(app, policy, status);
  ReportOptions report_options;
  add_report(app, report_options, status);
  DoctorOptions doctor_options;
  add_doctor(app, doctor_options, status);
  EnvOptions env_options;
  add_env(app, env_options, status);
  std::string shell;
  add_completion(app, shell);
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
