// SPDX-License-Identifier: Apache-2.0
// What a cached allocate + free costs on the fake driver: percentiles of single pairs on one
// thread, less what reading the clock costs, and pairs a second with one to four threads on one
// device.
//   allocator_bench [Google Benchmark's options]
//   allocator_bench --pairs N BYTES    N pairs and nothing else, for callgrind
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace {

using cinch::allocator::Address;
using cinch::allocator::Core;
using cinch::allocator::FakeDriver;
using cinch::allocator::kibibyte;
using cinch::allocator::mebibyte;
using Clock = std::chrono::steady_clock;

/// A device with blocks of many sizes in use and free, as in the middle of a step.
struct Device {
  Device() {
    for (std::size_t i = 0; i < 400; ++i) {
      blocks.push_back(core.allocate((i % 2 == 0 ? 512 : 700 * kibibyte) * (1 + i % 37)));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 3) core.free(blocks[i]);
  }
  FakeDriver fake;
  Core core{fake.table()};
  std::vector<Address> blocks;
};

double nanoseconds(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

/// The median of reading the clock twice.
double clock_cost() {
  std::vector<double> samples(10'001);
  for (double& sample : samples) {
    const auto start = Clock::now();
    sample = nanoseconds(Clock::now() - start);
  }
  std::ranges::nth_element(samples, samples.begin() + 5000);
  return samples[5000];
}

void pair_percentiles(benchmark::State& state) {
  Device device;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const double overhead = clock_cost();
  std::vector<double> samples;
  samples.reserve(std::size_t{1} << 22);
  device.core.free(device.core.allocate(bytes));
  const std::uint64_t warm = device.fake.calls();
  for (auto _ : state) {
    const auto start = Clock::now();
    const Address block = device.core.allocate(bytes);
    device.core.free(block);
    const double time = nanoseconds(Clock::now() - start) - overhead;
    if (samples.size() < samples.capacity()) samples.push_back(std::max(time, 0.0));
  }
  if (device.fake.calls() != warm) state.SkipWithError("the driver was called");
  const auto percentile = [&samples](double share) {
    const auto at = samples.begin() +
                    static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size() - 1));
    std::ranges::nth_element(samples, at);
    return *at;
  };
  state.counters["p50_ns"] = percentile(0.5);
  state.counters["p99_ns"] = percentile(0.99);
}
BENCHMARK(pair_percentiles)->Arg(1000)->Arg(256 * kibibyte)->Arg(3 * mebibyte)->Arg(20 * mebibyte);

std::unique_ptr<Device> shared_device;

/// Each thread allocates and frees blocks of its own sizes, in a stream of its own or all in one.
void threads_on_one_device(benchmark::State& state, bool own_streams, bool large_too) {
  if (state.thread_index() == 0) shared_device = std::make_unique<Device>();
  const auto thread = static_cast<cinch::allocator::Stream>(state.thread_index());
  const cinch::allocator::Stream stream = own_streams ? thread : 0;
  const std::size_t bytes = 1000 + 5000 * thread;
  for (auto _ : state) {
    Core& core = shared_device->core;
    const Address small = core.allocate(bytes, stream);
    const Address large = core.allocate(large_too ? 3 * mebibyte : 100 * kibibyte, stream);
    core.free(small);
    core.free(large);
  }
  state.SetItemsProcessed(2 * state.iterations());
  if (state.thread_index() == 0) shared_device.reset();
}
BENCHMARK_CAPTURE(threads_on_one_device, own_streams, true, true)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK_CAPTURE(threads_on_one_device, one_stream, false, true)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK_CAPTURE(threads_on_one_device, own_streams_small, true, false)
    ->ThreadRange(1, 4)
    ->UseRealTime();
BENCHMARK_CAPTURE(threads_on_one_device, one_stream_small, false, false)
    ->ThreadRange(1, 4)
    ->UseRealTime();

int run_pairs(std::size_t pairs, std::size_t bytes) {
  Device device;
  for (std::size_t i = 0; i < pairs; ++i) device.core.free(device.core.allocate(bytes));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--pairs") {
    return run_pairs(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
