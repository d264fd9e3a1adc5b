// SPDX-License-Identifier: Apache-2.0
// cinch doctor: checks whether Cinch works with a Python, and if not, says why.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/doctor/doctor_checks.h"
#include "agent/cli/doctor/doctor_program.h"
#include "agent/cli/program/child.h"
#include "agent/cli/progress.h"
#include "agent/cli/text.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// One run of the test program.
struct Trial {
  ChildResult child;
  Json facts = Json::object();  ///< what the program wrote; empty when it did not get that far
  std::string output;
};

Trial try_program(const std::string& python, const fs::path& directory, const std::string& name,
                  std::vector<std::pair<std::string, std::string>> environment,
                  const std::string& doing) {
  Command command{{python, "-c", doctor_program(), (directory / (name + ".facts")).string()},
                  std::move(environment),
                  (directory / (name + ".txt")).string()};
  Trial trial;
  Progress progress;
  command.look = [&] {
    progress.show_with_time("cinch: " + doing);
    return false;
  };
  trial.child = run_child(command);
  progress.clear();
  std::error_code ignored;
  if (fs::exists(command.output, ignored)) trial.output = read_file(command.output);
  if (fs::exists(command.arguments[3], ignored)) {
    trial.facts = Json::parse(read_file(command.arguments[3]), nullptr, false);
    if (!trial.facts.is_object()) trial.facts = Json::object();
  }
  return trial;
}

/// The lines that Cinch itself wrote.
std::string cinch_lines(const std::string& output) {
  std::string lines;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    if (line.starts_with("cinch")) lines += (lines.empty() ? "" : " | ") + line;
    begin = end + 1;
  }
  return lines;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t newline = text.rfind('\n');
  return newline == text.npos ? text : text.substr(newline + 1);
}

bool check_python(Checklist& list, const Trial& plain, const std::string& python) {
  const std::string version = plain.facts.value("python", "");
  if (!list.check("python", plain.child.started && !version.empty(),
                  "Python " + (version.empty() ? "(" + python + ")" : version + " runs"),
                  plain.child.started
                      ? "it ended with status " + std::to_string(plain.child.status) + ": " +
                            last_line(plain.output)
                      : plain.child.error + "; name another with --python")) {
    return false;
  }
  const std::string torch = plain.facts.value("torch", "");
  if (!list.check("torch", !torch.empty(),
                  torch.empty() ? "PyTorch is installed" : "PyTorch " + torch,
                  python + " says " + plain.facts.value("error", "nothing") +
                      "; install torch there, or name the Python that has it with --python")) {
    return false;
  }
  return list.check("training", plain.facts.contains("gradients"),
                    "two small models train without Cinch", plain.facts.value("error", ""));
}

bool check_preload(Checklist& list, const Trial& under) {
  const std::string advice =
      under.facts.empty() ? "under Cinch the program ended with status " +
                                std::to_string(under.child.status) + ": " + last_line(under.output)
      : under.facts.value("ld_preload", "").empty()
          ? std::string("LD_PRELOAD did not reach Python: a wrapper script clears the environment")
          : std::string(
                "the loader ignored LD_PRELOAD: this Python is statically linked, setuid, "
                "or of another libc or architecture than Cinch");
  if (!list.check("preload", under.facts.value("preloaded", false),
                  "libcinch.so is loaded into Python", advice)) {
    return false;
  }
  return list.check("preload_in_children", under.facts.value("child_preloaded", false),
                    "and into the processes that it starts",
                    "LD_PRELOAD is lost on the way to them: a wrapper of this Python clears the "
                    "environment; put LD_PRELOAD where the wrapper sets its own");
}

void check_outcome(Checklist& list, const Trial& plain, const Trial& under,
                   const std::vector<FoundReport>& reports) {
  const bool active = !reports.empty() && reports.front().report.active;
  std::string why = cinch_lines(under.output);
  if (why.empty() && !reports.empty()) why = reports.front().report.inactive_reason;
  if (why.empty()) {
    why = "it neither left a report nor said why: please report this";
    if (!under.output.empty()) why += "; the last line was: " + last_line(under.output);
  }
  if (!list.check("active", active, "Cinch is active", why)) return;

  std::uint64_t tensors = 0;
  for (const auto& op : reports.front().report.ops) tensors += op.count;
  list.check("interception", tensors > 0,
             "saved tensors are intercepted (" + std::to_string(tensors) + ")",
             "Cinch was loaded but saw none of the model's tensors: please report this, with the "
             "output of: python -c \"import torch; print(torch.__config__.show())\"");
  const std::string expected = plain.facts.value("gradients", "-");
  list.check("gradients", under.facts.value("gradients", "") == expected,
             "gradients under the lossless policy equal PyTorch's bit for bit",
             under.facts.contains("error")
                 ? under.facts.value("error", "")
                 : "they differ: please do not train with this version, and report it");
}

/// Enough for many processes' segments, and available in a container with Docker's default, 64 MiB.
constexpr std::size_t shared_memory_wanted = std::size_t{16} << 20;

/// The file's text; "" when there is no file.
std::string text_of(const char* file) {
  std::error_code error;
  return fs::exists(file, error) ? read_file(file) : "";
}

void examine(Checklist& list, const DoctorOptions& options) {
  const Libraries libraries = find_libraries();
  list.check("libraries", libraries.problem.empty(), "Cinch's libraries are in place",
             libraries.problem);
  check_policy_file(list, options.policy);
  check_variables(list);
  check_shared_memory(list, "/dev/shm", shared_memory_wanted);
  const char* preloads = std::getenv("LD_PRELOAD");
  check_other_preloads(list, preloads == nullptr ? "" : preloads, text_of("/etc/ld.so.preload"));

  const std::string& python = options.python;
  const TemporaryDirectory directory;
  const Trial plain = try_program(python, directory.path(), "plain", {{"CINCH_DISABLE", "1"}},
                                  "training two small models without Cinch");
  if (!check_python(list, plain, python)) return;
  check_cuda(list, plain.facts, libraries);
  if (!libraries.problem.empty() || !check_core(list, libraries, plain.facts.value("torch", ""))) {
    return;
  }

  const fs::path policy = directory.path() / "policy.json";
  std::ofstream(policy) << R"({"version": 1, "policy": "lossless", "min_bytes": 0})";
  const fs::path reports = directory.path() / "reports";
  fs::create_directory(reports);
  const Trial under = try_program(python, directory.path(), "under",
                                  {{"LD_PRELOAD", preload_value(libraries.preload)},
                                   {"CINCH_POLICY", policy.string()},
                                   {"CINCH_DISABLE", ""},
                                   {"CINCH_REPORT", (reports / "%p.json").string()}},
                                  "training them with Cinch");
  if (check_preload(list, under)) check_outcome(list, plain, under, find_reports(reports));
}

}  // namespace

int doctor(const DoctorOptions& options) {
  Checklist list(Style{!options.json && colour_wanted(STDOUT_FILENO)}, options.json);
  try {
    examine(list, options);
  } catch (const std::exception& error) {
    list.check("examination", false, "the examination itself", error.what());
  }
  const bool works = list.all_passed();
  if (options.json) {
    list.print_json();
  } else {
    std::printf("%s\n", works ? list.style().bold("Cinch works with this Python.").c_str()
                              : list.style().bad("Cinch does not work here yet.").c_str());
  }
  return works ? 0 : 1;
}

}  // namespace cinch::cli
