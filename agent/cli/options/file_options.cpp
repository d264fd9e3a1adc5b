// SPDX-License-Identifier: Apache-2.0
// Options of what reads files.

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/options/command_line.h"

namespace cinch::cli {

void add_report(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* sub =
      app.add_subcommand("report", "Show a report that cinch run --report kept, or compare two");
  sub->add_option("FILE", options->file, "The report")->required();
  CLI::Option* other = sub->add_option("OTHER", options->other, "A report to compare it with");
  sub->add_option("--html", options->html, "Write it as one self-contained page to this file")
      ->type_name("OUT.html")
      ->excludes(other);
  sub->footer(R"(Examples:
  cinch report r.json                    all that the report holds
  cinch report before.json after.json    two runs beside each other
  cinch report r.json --html r.html      a page for the browser, which needs no network)");
  sub->callback([options, &status] { status = show_report(*options); });
}

void add_policy(CLI::App& app, int& status) {
  const auto argument = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("policy", "Check, explain, list and show policies");
  sub->require_subcommand(1);
  sub->footer(R"(Examples:
  cinch policy list
  cinch policy show default > my.json
  cinch policy check my.json && cinch policy explain my.json)");
  CLI::App* check = sub->add_subcommand("check", "Is this policy right? Exit 0, or 2 and why not");
  check->add_option("POLICY", *argument, "A file or a preset's name")->required();
  check->footer("Examples:\n  cinch policy check my.json");
  check->callback([argument, &status] { status = check_policy(*argument); });
  CLI::App* words = sub->add_subcommand("explain", "Say in words what a policy does");
  words->add_option("POLICY", *argument, "A file or a preset's name")->required();
  words->footer("Examples:\n  cinch policy explain actnn");
  words->callback([argument, &status] { status = explain_policy(*argument); });
  CLI::App* list = sub->add_subcommand("list", "The policies that ship with Cinch");
  list->footer("Examples:\n  cinch policy list");
  list->callback([&status] { status = list_policies(); });
  CLI::App* show = sub->add_subcommand("show", "Print a shipped policy's file");
  show->add_option("NAME", *argument, "The preset's name")->required();
  show->footer("Examples:\n  cinch policy show default > my.json");
  show->callback([argument, &status] { status = show_policy(*argument); });
}

#ifdef CINCH_REPLAY
void add_replay(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReplayOptions>();
  CLI::App* sub = app.add_subcommand(
      "replay", "Run recorded allocations through Cinch's allocator and models of PyTorch's");
  sub->add_option("FILE", options->files, "Traces, or memory snapshots that PyTorch pickled")
      ->required();
  sub->add_option("--memory", options->memory,
                  "Bytes of the device that is pretended, such as 24GiB")
      ->transform(CLI::AsSizeValue(false));
  sub->add_option("--lag", options->lag,
                  "How far that device lags behind the host, in steps of the trace: 0.5 is half a "
                  "step. Default: not at all")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 100.0));
  sub->add_option("--write", options->write, "Only write the trace, compressed, to this file")
      ->type_name("OUT");
  sub->add_flag("--json", options->json, "Print JSON");
  sub->footer(R"(Examples:
  cinch replay run.trace
  cinch replay --memory 24GiB snapshot.pickle
  cinch replay --lag 0.5 run.trace
  cinch replay --write run.trace snapshot.pickle)");
  sub->callback([options, &status] {
    if (!options->write.empty() && options->files.size() != 1) {
      throw CLI::ValidationError("--write", "takes one FILE");
    }
    status = replay(*options);
  });
}
#endif

}  // namespace cinch::cli
