// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <nlohmann/json.hpp>

#include "agent/cli/commands.h"
#include "agent/cli/progress.h"
#include "agent/cli/text.h"
#include "allocator/breakdown.h"
#include "files/write_file.h"
#include "tools/replay/replay.h"

namespace cinch::cli {
namespace {

using allocator::Outcome;
using allocator::Trace;

nlohmann::ordered_json to_json(const std::string& file, const Trace& trace,
                               const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json result = {{"file", file},
                                   {"title", trace.title},
                                   {"allocations", trace.allocations},
                                   {"allocators", nlohmann::ordered_json::array()}};
  for (const Outcome& outcome : outcomes) {
    result["allocators"].push_back({{"name", outcome.allocator},
                                    {"peak_allocated", outcome.peak_allocated},
                                    {"peak_reserved", outcome.peak_reserved},
                                    {"fragmentation", outcome.fragmentation()},
                                    {"memory_calls", outcome.memory_calls},
                                    {"calls_in_last_step", outcome.calls_in_last_step},
                                    {"event_calls", outcome.event_calls},
                                    {"host_waits", outcome.host_waits},
                                    {"refused", outcome.refused},
                                    {"seconds", outcome.seconds}});
  }
  return result;
}

void print(const std::string& file, const Trace& trace, const std::vector<Outcome>& outcomes) {
  std::printf("%s: %s\n", printable(file).c_str(), printable(trace.title).c_str());
  std::printf("  %u allocations, at most %s in use at once\n", trace.allocations,
              allocator::size_text(trace.peak_bytes()).c_str());
  std::printf("  %-11s %12s %14s %13s %14s %12s %11s %8s %10s\n", "allocator", "reserved",
              "fragmentation", "memory calls", "in last step", "event calls", "host waits",
              "refused", "time");
  for (const Outcome& outcome : outcomes) {
    std::printf("  %-11s %12s %12.1f %% %13llu %14llu %12llu %11llu %8llu %7.1f ms\n",
                outcome.allocator.c_str(), allocator::size_text(outcome.peak_reserved).c_str(),
                100 * outcome.fragmentation(),
                static_cast<unsigned long long>(outcome.memory_calls),
                static_cast<unsigned long long>(outcome.calls_in_last_step),
                static_cast<unsigned long long>(outcome.event_calls),
                static_cast<unsigned long long>(outcome.host_waits),
                static_cast<unsigned long long>(outcome.refused), 1000 * outcome.seconds);
  }
}

}  // namespace

int replay(const ReplayOptions& options) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  Progress progress;
  std::size_t number = 0;
  for (const std::string& file : options.files) {
    progress.show((options.write.empty() ? "cinch: replaying " : "cinch: converting ") +
                  std::to_string(++number) + " of " + std::to_string(options.files.size()) + ": " +
                  file);
    const auto loaded = allocator::load_trace(file);
    if (const auto* fault = std::get_if<std::string>(&loaded)) {
      progress.clear();
      say(file + ": " + *fault);
      return usage_error;
    }
    const auto& trace = std::get<Trace>(loaded);
    if (!options.write.empty()) {
      const std::string problem = files::write_file(allocator::to_file(trace), options.write);
      if (!problem.empty()) {
        progress.clear();
        say(problem);
        return 1;
      }
      continue;
    }
    const auto outcomes = allocator::replay(trace, options.memory, options.lag);
    progress.clear();
    if (options.json) {
      all.push_back(to_json(file, trace, outcomes));
    } else {
      print(file, trace, outcomes);
    }
  }
  if (options.json) std::printf("%s\n", all.dump(2).c_str());
  return 0;
}

}  // namespace cinch::cli
