// SPDX-License-Identifier: Apache-2.0
// cinch advise: advice about the program's own settings, from a short dry run.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/program/dry_run.h"
#include "agent/cli/text.h"
#include "policy/advising/batch_size.h"

namespace cinch::cli {
namespace {

using policy::MemoryNeed;
using telemetry::Report;

std::uint64_t first_extent(const std::string& shape) {
  std::uint64_t extent = 0;
  const char* end = shape.data() + shape.size();
  const auto [after, error] = std::from_chars(shape.data(), end, extent);
  const bool has_more = after != end && *after == 'x';
  return error == std::errc() && has_more ? extent : 0;
}

/// MemAvailable, or less where a control group has a limit; 0 when neither is known.
std::uint64_t available_memory() {
  std::uint64_t available = 0;
  std::ifstream memory("/proc/meminfo");
  for (std::string word; memory >> word;) {
    if (word != "MemAvailable:") continue;
    memory >> available;
    available *= 1024;
    break;
  }
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used && limit > used) {
    available = available == 0 ? limit - used : std::min(available, limit - used);
  }
  return available;
}

/// One policy's row.
struct Advice {
  std::string policy;
  double ratio = 1;
  MemoryNeed need;
  std::uint64_t batch = 0;
};

/// The facts about the run that do not depend on a policy.
struct Situation {
  std::uint64_t batch = 0;
  bool batch_guessed = false;
  std::uint64_t memory = 0;
  double optimizer_bytes = 0;
  std::string note;  ///< for people; "" for none
};

Situation situation_of(const Report& report, const AdviseOptions& options) {
  Situation now;
  now.batch = options.batch;
  if (now.batch == 0) {
    now.batch = batch_of(report);
    now.batch_guessed = true;
  }
  now.memory = options.memory != 0 ? options.memory : available_memory();
  const auto ratio = policy::optimizer_state_ratio(report.optimizer);
  constexpr double usual = 2;
  now.optimizer_bytes = ratio.value_or(usual) * static_cast<double>(report.parameter_bytes);
  if (!ratio) {
    now.note = "the state of " + (report.optimizer.empty() ? "the optimizer" : report.optimizer) +
               " is not known: taken for twice the parameters";
  }
  return now;
}

std::vector<Advice> advice_of(const Report& report, const Situation& now,
                              const AdviseOptions& options) {
  policy::StepMemory step;
  step.batch = now.batch;
  step.before_bytes = static_cast<double>(report.rss_bytes_at_start);
  step.peak_bytes = static_cast<double>(report.plain_rss_bytes);
  step.parameter_bytes = static_cast<double>(report.parameter_bytes);
  step.optimizer_bytes = now.optimizer_bytes;
  std::vector<Advice> rows;
  const auto add = [&](const std::string& policy, double stored) {
    step.stored_bytes = stored;
    const MemoryNeed need = memory_need(step);
    const double ratio = stored > 0 ? step.raw_bytes / stored : 0;
    rows.push_back(
        {policy, ratio, need, advised_batch(need, static_cast<double>(now.memory), options.most)});
  };
  for (const Report::DryRun& run : report.dry_run) {
    step.raw_bytes = static_cast<double>(run.raw_bytes);
    if (rows.empty()) add("off", step.raw_bytes);
    add(run.policy, static_cast<double>(run.stored_bytes));
  }
  return rows;
}

std::string text_of(const std::vector<Advice>& rows, const Situation& now, const Style& style) {
  const auto bytes = [](double value) { return human_bytes(static_cast<std::uint64_t>(value)); };
  std::string text =
      style.bold("batch sizes for " + human_bytes(now.memory) +
                 ", of which 5 % stay free; seen: " + std::to_string(now.batch)) +
      (now.batch_guessed ? " (guessed from the activations; say otherwise by --batch)" : "") + '\n';
  Table table({"policy", ">ratio", ">batch size", ">needs", ">twice that needs"});
  for (const Advice& row : rows) {
    const std::uint64_t batch = row.batch;
    table.add({row.policy, row.ratio > 0 ? human_ratio(row.ratio) : "-",
               batch == 0 ? "none" : std::to_string(batch),
               bytes(row.need.at(std::max(batch, std::uint64_t{1}))),
               bytes(row.need.at(std::max(2 * batch, std::uint64_t{1})))});
  }
  text += table.render("  ");
  if (!now.note.empty()) text += printable(now.note) + '\n';
  return text;
}

std::string json_of(const std::vector<Advice>& rows, const Situation& now) {
  using Json = nlohmann::ordered_json;
  Json json = {{"memory_bytes", now.memory},
               {"batch", now.batch},
               {"batch_guessed", now.batch_guessed},
               {"note", now.note},
               {"policies", Json::array()}};
  for (const Advice& row : rows) {
    json["policies"].push_back({{"policy", row.policy},
                                {"ratio", row.ratio},
                                {"batch_size", row.batch},
                                {"fixed_bytes", row.need.fixed},
                                {"bytes_per_sample", row.need.per_sample}});
  }
  return json.dump(2) + '\n';
}

}  // namespace

std::uint64_t batch_of(const Report& report) {
  std::map<std::uint64_t, std::uint64_t> bytes;  // by first extent
  for (const Report::Entry& entry : report.entries) {
    bytes[first_extent(entry.shape)] += entry.raw_bytes;
  }
  bytes.erase(0);
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& item) { return item.second; });
  return most == bytes.end() ? 0 : most->first;
}

int advise_batch_size(const AdviseOptions& options) {
  if (options.command.empty()) {
    say("found no program to run, expected: cinch advise batch-size [options] -- PROGRAM "
        "[arguments]");
    return usage_error;
  }
  const ShortRunOutcome outcome = run_dry({options.policies, options.command, false});
  if (!outcome.report) {
    say("no advice: " + outcome.error);
    return outcome.status;
  }
  const Situation now = situation_of(*outcome.report, options);
  for (const auto& [unknown, why] :
       {std::pair{now.batch == 0, "the batch size can't be seen; say it by --batch"},
        std::pair{now.memory == 0, "the memory can't be seen; say how much by --memory"},
        std::pair{outcome.report->dry_run.front().device_bytes != 0,
                  "activations on CUDA devices are not counted yet"},
        std::pair{outcome.report->rss_bytes_at_start == 0, "the process's memory can't be seen"}}) {
    if (!unknown) continue;
    say(std::string("no advice: ") + why);
    return 1;
  }
  const auto rows = advice_of(*outcome.report, now, options);
  const Style style{colour_wanted(STDOUT_FILENO)};
  std::fputs((options.json ? json_of(rows, now) : text_of(rows, now, style)).c_str(), stdout);
  return 0;
}

}  // namespace cinch::cli
