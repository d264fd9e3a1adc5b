// SPDX-License-Identifier: Apache-2.0
// Options of what starts programs, or says how to.

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/options/command_line.h"

namespace cinch::cli {
namespace {

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

std::shared_ptr<AdviseOptions> advise_options(CLI::App& sub,
                                              const std::vector<std::string>& command) {
  const auto options = std::make_shared<AdviseOptions>();
  options->command = command;
  sub.add_option("--policies", options->policies, "Which policies; default: all that ship but off")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("POLICY,...");
  sub.add_flag("--json", options->json, "Print JSON");
  sub.prefix_command();  // for take_program
  return options;
}

void add_advise_policy(CLI::App& advise, const std::vector<std::string>& command, int& status) {
  CLI::App* sub = advise.add_subcommand(
      "policy", "The policy that suits a program: memory, errors and time of each");
  const auto options = advise_options(*sub, command);
  constexpr std::uint64_t most = 1'000'000;
  sub->add_option("--warm-up", options->warm_up,
                  "Steps before any are measured, for policies to adapt in")
      ->check(CLI::Range(std::uint64_t{4}, most))
      ->type_name("N")
      ->capture_default_str();
  sub->add_option("--steps", options->steps, "Steps that are measured")
      ->check(CLI::Range(std::uint64_t{4}, most))
      ->type_name("N")
      ->capture_default_str();
  sub->footer(R"(Examples:
  cinch advise policy -- python train.py
  cinch advise policy --policies default,my.json --warm-up 200 -- python train.py
  cinch advise policy --json -- python train.py | jq .advice

The program is run once under each policy, and ended after these steps; what it prints goes to
stderr. Errors are squared, relative to the exact gradients, and compared with the noise that the
mini-batch brings: docs/advise.md.)");
  sub->callback([sub, options, &status] {
    take_program(*sub, options->command);
    status = advise_policy(*options);
  });
}

void add_advise_batch_size(CLI::App& advise, const std::vector<std::string>& command, int& status) {
  CLI::App* batch = advise.add_subcommand(
      "batch-size", "The largest batch size that fits into memory, with each policy");
  const auto options = advise_options(*batch, command);
  batch
      ->add_option("--memory", options->memory,
                   "What training may use, such as 8GiB; default: the memory available now")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  batch
      ->add_option("--batch", options->batch,
                   "The program's batch size, where it can't be seen from its activations")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  batch->add_option("--max", options->most, "No larger batch sizes than this")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  batch->footer(R"(Examples:
  cinch advise batch-size -- python train.py
  cinch advise batch-size --memory 8GiB --policies default,my.json -- python train.py --batch 64
  cinch advise batch-size --json -- python train.py | jq '.policies[] | {policy, batch_size}'

The program is trained uncompressed for two or three steps and then ended; what it prints goes to
stderr. Sizes are powers of two, with 5 % of the memory kept free.)");
  batch->callback([batch, options, &status] {
    take_program(*batch, options->command);
    status = advise_batch_size(*options);
  });
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& command, int& status) {
  const auto options = std::make_shared<RunOptions>();
  options->command = command;
  CLI::App* sub = app.add_subcommand("run", "Run a program with its activations compressed");
  sub->add_option("--policy,-p", options->policy, "A preset's name (cinch policy list) or a file")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_option(
         "--report,-r", options->report,
         "Keep the report of what was saved in this file: of the process that saved most,\n"
         "or, with %p for a process's number, one of each")
      ->envname("CINCH_REPORT")
      ->type_name("FILE.json");
  sub->add_option(
         "--snapshot", options->snapshot,
         "Keep a snapshot of CUDA's allocator, as torch's memory_viz opens it, in this file:\n"
         "at the end, and when memory runs out")
      ->envname("CINCH_SNAPSHOT")
      ->type_name("FILE.pickle");
  sub->add_flag("--strict", options->strict,
                "Stop the program rather than run it uncompressed when Cinch cannot start")
      ->envname("CINCH_STRICT");
  sub->add_flag("--disable", options->disable, "Run the program as without Cinch")
      ->envname("CINCH_DISABLE");
  sub->add_flag("--no-telemetry", options->no_telemetry,
                "Don't show the program to cinch watch and cinch agent");
  sub->add_flag("--quiet,-q", options->quiet, "No summary at the end unless Cinch was not active");
  add_dry_run_options(*sub, *options);
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
  sub->callback([sub, options, &status] {
    take_program(*sub, options->command);
    if (options->policies.empty() && sub->count("--policy") != 0) {
      options->policies.push_back(options->policy);
    }
    status = run(*options);
  });
}

void add_advise(CLI::App& app, const std::vector<std::string>& command, int& status) {
  CLI::App* sub = app.add_subcommand("advise", "Advice from short runs of a program");
  sub->require_subcommand(1);
  sub->footer(R"(Examples:
  cinch advise policy -- python train.py
  cinch advise batch-size --memory 8GiB -- python train.py)");
  add_advise_policy(*sub, command, status);
  add_advise_batch_size(*sub, command, status);
}

void add_doctor(CLI::App& app, int& status) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* sub = app.add_subcommand("doctor", "Find out whether Cinch works here, or why not");
  sub->add_option("--python", options->python, "The Python to examine")
      ->type_name("PYTHON")
      ->capture_default_str();
  sub->add_option("--policy,-p", options->policy, "The policy that is meant to be used")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_flag("--json", options->json, "Print JSON");
  sub->footer(R"(Examples:
  cinch doctor                           the python3 of this shell
  cinch doctor --python .venv/bin/python --policy my.json
  cinch doctor --json | jq '.checks[] | select(.status != "ok")'

The exit status is 0 when nothing failed, else 1. Notes are no failures.)");
  sub->callback([options, &status] { status = doctor(*options); });
}

void add_env(CLI::App& app, int& status) {
  const auto options = std::make_shared<EnvOptions>();
  CLI::App* sub = app.add_subcommand(
      "env", "Print the environment for programs that cinch run can't start (Slurm, Docker)");
  sub->add_option("--policy,-p", options->policy, "A preset's name (cinch policy list) or a file")
      ->envname("CINCH_POLICY")
      ->type_name("POLICY")
      ->capture_default_str();
  sub->add_option("--report,-r", options->report,
                  "Where each process leaves its report; %p stands for its number")
      ->type_name("FILE.json");
  sub->add_option("--format", options->format, "sh, fish, or plain: NAME=VALUE")
      ->check(CLI::IsMember({"sh", "fish", "plain"}))
      ->capture_default_str();
  sub->footer(R"--(Examples:
  eval "$(cinch env --policy default)" && torchrun --nproc-per-node=8 train.py
  cinch env --format fish | source
  cinch env --format plain > cinch.env && docker run --env-file cinch.env ...)--");
  sub->callback([options, &status] { status = print_environment(*options); });
}

}  // namespace cinch::cli
