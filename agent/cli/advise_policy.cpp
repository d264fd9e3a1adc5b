// SPDX-License-Identifier: Apache-2.0
// cinch advise policy: which policy suits a program, from one short run under each.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/program/short_run.h"
#include "agent/cli/text.h"
#include "agent/cli/workplace.h"
#include "policy/advising/advice.h"
#include "policy/algorithms/algorithm.h"
#include "policy/policy.h"

namespace cinch::cli {
namespace {

using policy::Prospect;
using telemetry::Report;

bool is_appraised(const Report& report) {
  return !report.appraisal.empty() && report.appraisal.front().measured;
}

/// A policy's row.
struct Row {
  Prospect prospect;
  double time = 0;  ///< relative to a step without Cinch; 0: not known
  std::uint64_t gradients = 0;
  std::uint64_t untraced_gradients = 0;
};

bool approximates_nothing(const std::string& policy) {
  const auto loaded = policy::load_settings(policy);
  const auto* settings = std::get_if<policy::Settings>(&loaded);
  return settings != nullptr && policy::keeps_all_exact(*settings);
}

Row row_of(const std::string& policy, const Report& report) {
  const Report::Appraisal& found = report.appraisal.front();
  Row row;
  row.untraced_gradients = approximates_nothing(policy) ? 0 : found.untraced_gradients;
  row.prospect = {policy,
                  static_cast<double>(found.raw_bytes),
                  static_cast<double>(found.stored_bytes),
                  found.gradient_error,
                  found.gradient_noise,
                  found.error_by_weight,
                  found.noise_by_weight,
                  row.untraced_gradients == 0};
  // A device works beside the host: the host's time in Cinch says little of it.
  const bool on_device = std::ranges::any_of(
      report.devices, [](const auto& device) { return device.stash_bytes_at_most != 0; });
  if (!on_device) row.time = policy::relative_time(found.seconds, found.seconds_in_cinch);
  row.gradients = found.gradients;
  return row;
}

/// Every run measures the noise, of the same gradients where the program's random numbers are
/// seeded. One figure for all, the median, so that shares compare policies.
void share_noise(std::vector<Row>& rows) {
  for (double Prospect::*noise : {&Prospect::noise, &Prospect::noise_by_weight}) {
    std::vector<double> found;
    for (const Row& row : rows) found.push_back(row.prospect.*noise);
    const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
    std::ranges::nth_element(found, middle);
    for (Row& row : rows) row.prospect.*noise = *middle;
  }
}

std::optional<std::size_t> advised(const std::vector<Row>& rows) {
  std::vector<Prospect> prospects;
  for (const Row& row : rows) prospects.push_back(row.prospect);
  return policy::advised_policy(prospects);
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max(bytes, 0.0)));
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.1 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

std::string advice_text(const std::vector<Row>& rows) {
  const std::string limit = percent(policy::most_share_of_noise);
  if (const auto best = advised(rows)) {
    const Prospect& found = rows[*best].prospect;
    return "advice: --policy " + printable(found.policy) + ": frees " +
           bytes_text(found.raw_bytes - found.stored_bytes) + " of " + bytes_text(found.raw_bytes) +
           "; the error of the gradients is " + percent(found.share_of_noise()) +
           " of their noise, at most " + limit + " is advised";
  }
  const bool any_traced =
      std::ranges::any_of(rows, [](const Row& r) { return r.prospect.is_traced; });
  if (!any_traced) {
    return "advice: none but --policy lossless: errors of the gradients can't be seen in this "
           "program";
  }
  return "advice: --policy lossless: the error of the gradients is above " + limit +
         " of their noise under each of these policies";
}

std::string text_of(const std::vector<Row>& rows, const AdviseOptions& options,
                    const Style& style) {
  const Prospect& first = rows.front().prospect;
  std::string text =
      style.bold("policies in " + counted(options.steps, "step") +
                 " of this program; noise of its gradients: " + human_error(first.noise) +
                 ", by weight: " + human_error(first.noise_by_weight)) +
      '\n';
  Table table({"policy", ">ratio", ">at the peak", ">frees", ">error", ">by weight",
               ">share of noise", ">time"});
  for (const Row& row : rows) {
    const Prospect& p = row.prospect;
    const std::string least = p.is_traced ? "" : "> ";
    char time[32];
    std::snprintf(time, sizeof time, "%.2f x", row.time);
    table.add({p.policy, human_ratio(p.ratio()), bytes_text(p.stored_bytes),
               bytes_text(p.raw_bytes - p.stored_bytes), least + human_error(p.error),
               least + human_error(p.error_by_weight), least + percent(p.share_of_noise()),
               row.time > 0 ? time : "-"});
  }
  text += table.render("  ");
  for (const Row& row : rows) {
    if (row.untraced_gradients == 0) continue;
    text +=
        "  " + printable(row.prospect.policy) + ": of " +
        percent(static_cast<double>(row.untraced_gradients) / static_cast<double>(row.gradients)) +
        " of the gradients only a part of the error is known: they come through operators that "
        "can't be run twice\n";
  }
  return text + style.bold(advice_text(rows)) + '\n';
}

std::string json_of(const std::vector<Row>& rows, const AdviseOptions& options) {
  using Json = nlohmann::ordered_json;
  const auto best = advised(rows);
  Json json = {{"warm_up", options.warm_up},
               {"steps", options.steps},
               {"gradient_noise", rows.front().prospect.noise},
               {"noise_by_weight", rows.front().prospect.noise_by_weight},
               {"most_share_of_noise", policy::most_share_of_noise},
               {"advice", best ? Json(rows[*best].prospect.policy) : Json()},
               {"policies", Json::array()}};
  for (const Row& row : rows) {
    const Prospect& p = row.prospect;
    const double share = p.share_of_noise();
    json["policies"].push_back({{"policy", p.policy},
                                {"ratio", p.ratio()},
                                {"raw_bytes", p.raw_bytes},
                                {"stored_bytes", p.stored_bytes},
                                {"gradient_error", p.error},
                                {"error_by_weight", p.error_by_weight},
                                {"share_of_noise", share},
                                {"relative_time", row.time > 0 ? Json(row.time) : Json()},
                                {"gradients", row.gradients},
                                {"untraced_gradients", row.untraced_gradients}});
  }
  return json.dump(2) + '\n';
}

std::string appraisal_stage(const std::string& policy, std::uint64_t steps,
                            const telemetry::LiveFigures* live) {
  const std::uint64_t done = live == nullptr ? 0 : live->steps;
  return "cinch: advice: " + policy + ", step " + std::to_string(done) + " of " +
         std::to_string(steps);
}

ShortRunOutcome appraise(const std::string& policy, const AdviseOptions& options) {
  const std::uint64_t timed = options.steps / 2;
  const std::uint64_t all = options.warm_up + options.steps;
  const std::string phases = std::to_string(options.warm_up) + ',' + std::to_string(timed) + ',' +
                             std::to_string(options.steps - timed);
  return run_short({options.command,
                    {{"CINCH_POLICY", absolute_policy(policy)},
                     {"CINCH_APPRAISE", phases},
                     {"CINCH_REPORT_DETAILS", "0"}},
                    is_appraised,
                    "its step " + std::to_string(all) +
                        " was over; --warm-up and --steps say how many it shall train",
                    [&](const auto* live) { return appraisal_stage(policy, all, live); }});
}

}  // namespace

int advise_policy(const AdviseOptions& options) {
  if (options.command.empty()) {
    say("found no program to run, expected: cinch advise policy [options] -- PROGRAM [arguments]");
    return usage_error;
  }
  const std::vector<std::string> policies = or_all_presets(options.policies);
  if (const std::string problem = problem_of(policies); !problem.empty()) {
    say("no advice: " + problem);
    return usage_error;
  }
  std::vector<Row> rows;
  for (const std::string& policy : policies) {
    const ShortRunOutcome outcome = appraise(policy, options);
    if (!outcome.report) {
      say("no advice: under " + policy + ": " + outcome.error);
      return outcome.status;
    }
    rows.push_back(row_of(policy, *outcome.report));
  }
  share_noise(rows);
  const Style style{colour_wanted(STDOUT_FILENO)};
  std::fputs((options.json ? json_of(rows, options) : text_of(rows, options, style)).c_str(),
             stdout);
  return 0;
}

}  // namespace cinch::cli
