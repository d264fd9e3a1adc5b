// SPDX-License-Identifier: Apache-2.0
// Speed, ratio and error of every codec and of what else there is, beside memcpy of the same bytes
// in the same run. A benchmark is named random|activation/data/contender/threads:N.

#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>

#include "tests/bench/codec_bench/activations.h"
#include "tests/bench/codec_bench/cases.h"
#include "tests/bench/codec_bench/row.h"

namespace cinch::bench {
namespace {

struct Options {
  std::string activations;
  std::int64_t megabytes = 64;
  double seconds = 0.15;
  std::vector<int> threads = {1, 2};
};

/// Registers a benchmark for each contender that this build has and that takes the data; says which
/// don't, and adds to `missing` whom this build lacks.
void add(const std::string& collection, const Group& group, const Options& options,
         Workbench& bench, std::set<std::string>& missing) {
  for (const Contender& contender : group.contenders) {
    const auto subject = contender.make(1);
    if (!subject) {
      missing.insert(contender.name);
      continue;
    }
    const std::string name = collection + "/" + group.source.name + "/" + contender.name;
    if (!subject->accepts(contender.described(group.source))) {
      std::fprintf(stderr, "codec_bench: skipped %s: does not take such data\n", name.c_str());
      continue;
    }
    for (const int threads : options.threads) {
      const auto row = std::make_shared<Row>(group.source, contender, threads, bench);
      benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(threads)).c_str(),
                                   [row](benchmark::State& state) { row->run(state); })
          ->UseManualTime()
          ->MinTime(options.seconds)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::vector<Group> activation_groups(const Options& options) {
  std::vector<Group> groups;
  for (Activation& next : load_activations(options.activations, options.megabytes << 20)) {
    std::vector<Contender> contenders = contenders_for(next.kind);
    if (contenders.empty()) {
      std::fprintf(stderr, "codec_bench: skipped %s: unknown kind %s\n", next.source.name.c_str(),
                   next.kind.c_str());
    }
    groups.push_back({std::move(next.source), std::move(contenders)});
  }
  return groups;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("GB/s of raw data of every codec and of opponents, beside memcpy");
  app.add_option("--activations", options.activations,
                 "Folder that dump_activations.py wrote; without it, random data only")
      ->check(CLI::ExistingDirectory);
  app.add_option("--megabytes", options.megabytes, "Size of the data of a case")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time to encode and decode in, each case")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Numbers of threads to run with")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.footer(
      "Options of Google Benchmark (--benchmark_filter=REGEX, --benchmark_out=FILE.json, …)\n"
      "are its own; --benchmark_list_tests lists the cases.");
  app.allow_extras();
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> rest = app.remaining();
  rest.insert(rest.begin(), "--benchmark_counters_tabular=true");
  std::vector<char*> arguments = {argv[0]};
  for (std::string& argument : rest) arguments.push_back(argument.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::AddCustomContext("processor", processor());
  benchmark::AddCustomContext("megabytes", std::to_string(options.megabytes));

  Workbench bench;
  std::set<std::string> missing;
  const std::vector<Group> random = random_groups(options.megabytes << 20);
  for (const Group& group : random) add("random", group, options, bench, missing);
  std::vector<Group> activations;
  if (!options.activations.empty()) activations = activation_groups(options);
  for (const Group& group : activations) add("activation", group, options, bench, missing);
  for (const std::string& name : missing) {
    std::fprintf(stderr, "codec_bench: skipped %s: not in this build\n", name.c_str());
  }
  benchmark::RunSpecifiedBenchmarks();
  return any_row_failed() ? 1 : 0;
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  try {
    return cinch::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codec_bench: %s\n", error.what());
    return 1;
  }
}
