// SPDX-License-Identifier: Apache-2.0
// What one adaptation costs: ActNN's greedy, the budget's knapsack, and the ranges that each save
// of mixed precision measures, beside memcpy of the same bytes. Prints medians.
//
//   build/bin/policy_bench
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "policy/adapting/mixed_precision.h"
#include "policy/adapting/plane_ranges.h"
#include "policy/algorithms/knapsack.h"

namespace {

using namespace cinch;

/// Median seconds of `runs` calls.
template <typename F>
double median_seconds(int runs, F&& f) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + runs / 2);
  return seconds[static_cast<std::size_t>(runs / 2)];
}

void greedy() {
  std::printf("ActNN's greedy: layers x samples, ms, ns an item\n");
  std::mt19937 random(1);
  std::lognormal_distribution<double> weight(0, 2);
  for (const int samples : {16, 64, 256, 1024}) {
    constexpr int layers = 53;
    std::vector<policy::PrecisionItem> items;
    double elements = 0;
    for (int l = 0; l < layers; ++l) {
      for (int n = 0; n < samples; ++n) {
        items.push_back({weight(random), std::ldexp(1.0, 12 + l % 5)});
        elements += items.back().size;
      }
    }
    std::size_t sum = 0;
    const double s =
        median_seconds(9, [&] { sum += policy::allocate_bits(items, 2 * elements)[0]; });
    std::printf("  %d x %-5d %8.3f %8.1f%s\n", layers, samples, 1e3 * s,
                1e9 * s / static_cast<double>(items.size()), sum == 0 ? "!" : "");
  }
}

void knapsack() {
  std::printf("the budget's knapsack: entries, ms\n");
  std::mt19937 random(2);
  std::lognormal_distribution<double> sensitivity(0, 2);
  for (const int entries : {10, 48, 200, 1000}) {
    std::vector<std::vector<policy::KnapsackOption>> options;
    double all = 0;
    for (int i = 0; i < entries; ++i) {
      const double size = std::ldexp(1.37e6, i % 6);
      const double w = sensitivity(random);
      auto& of_entry = options.emplace_back();
      for (const int bits : {2, 3, 4, 6, 8}) {
        const double levels = std::ldexp(1.0, bits) - 1;
        of_entry.push_back({size * (bits + 0.125) / 32, w / (levels * levels)});
      }
      of_entry.push_back({size, 0});
      all += size;
    }
    std::size_t sum = 0;
    const double s =
        median_seconds(9, [&] { sum += policy::choose_options(options, all / 9).chosen.size(); });
    std::printf("  %-8d %8.3f%s\n", entries, 1e3 * s, sum == 0 ? "!" : "");
  }
}

void ranges() {
  std::vector<float> x(std::size_t{1} << 23);
  std::mt19937 random(3);
  for (float& v : x) v = static_cast<float>(random()) * 0x1p-32F;
  std::vector<float> copy(x.size());
  codecs::Description what;
  what.layout = codecs::PlaneLayout::rows(1 << 23, 1 << 18);
  const double bytes = static_cast<double>(x.size() * sizeof(float));
  float sum = 0;
  const double s = median_seconds(9, [&] { sum += policy::plane_ranges(what, x.data(), 256)[0]; });
  const double m = median_seconds(9, [&] {
    std::memcpy(copy.data(), x.data(), x.size() * sizeof(float));
    sum += copy[random() % copy.size()];
  });
  std::printf("ranges of groups: %.1f GB/s, %.2f of memcpy's time%s\n", bytes / s * 1e-9, s / m,
              sum == 0 ? "!" : "");
}

}  // namespace

int main() {
  greedy();
  knapsack();
  ranges();
}
