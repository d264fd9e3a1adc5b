// SPDX-License-Identifier: Apache-2.0
//
// What a step boundary's publication takes: 30 rows, a device, a point of the history and the live
// figures; and what a reader takes for one process.
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "agent/telemetry/reader.h"
#include "agent/telemetry/writer.h"

namespace cinch::telemetry {
namespace {

constexpr std::size_t rows = 30;

std::unique_ptr<Writer> make_writer(const std::string& directory) {
  std::string error;
  auto writer = Writer::create(directory, own_identity("division", "2.11.0"), error);
  for (std::size_t i = 0; writer != nullptr && i < rows; ++i) writer->add_row({});
  return writer;
}

std::string fresh_directory() {
  std::string pattern = "/dev/shm/cinch-telemetry-bench-XXXXXX";
  return mkdtemp(pattern.data()) == nullptr ? "" : pattern;
}

void publish(Writer& writer, std::uint64_t n) {
  const Writer::Turn turn(writer);
  LiveFigures live;
  live.heartbeat = monotonic_now();
  live.steps = n;
  for (std::size_t i = 0; i < rows; ++i) writer.set_row(i, {n, n, n, n, n, n, n, 0.5, 0.5});
  writer.set_device({-1, n, n, n, n});
  writer.add_history({0, n, n, n, n, n, n, n, n});
  writer.publish(live);
}

void boundary(benchmark::State& state) {
  const std::string directory = fresh_directory();
  const auto writer = make_writer(directory);
  if (writer == nullptr) return state.SkipWithError("no segment");
  std::uint64_t n = 0;
  for (auto _ : state) publish(*writer, ++n);
  std::filesystem::remove_all(directory);
}
BENCHMARK(boundary);

void read_one(benchmark::State& state) {
  const std::string directory = fresh_directory();
  const auto writer = make_writer(directory);
  if (writer == nullptr) return state.SkipWithError("no segment");
  for (std::uint64_t n = 0; n < 2 * history_length; ++n) publish(*writer, n);
  for (auto _ : state) benchmark::DoNotOptimize(read_runs(directory));
  std::filesystem::remove_all(directory);
}
BENCHMARK(read_one);

}  // namespace
}  // namespace cinch::telemetry

BENCHMARK_MAIN();
