// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/row.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/bench/codec_bench/threads.h"

namespace cinch::bench {
namespace {

constexpr std::size_t kFewestRounds = 3;

bool failed = false;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double shortest(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

/// Median over the rounds of a / b: how steady the ratio of the shortest times is.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios(a.size());
  std::transform(a.begin(), a.end(), b.begin(), ratios.begin(), std::divides<>());
  const auto middle = ratios.begin() + std::ptrdiff_t(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

/// memcpy with as many threads as the codec has, in one piece each: glibc streams past the caches
/// only when a piece is large.
void copy(std::span<const std::byte> source, std::span<std::byte> target, int threads) {
  const auto size = static_cast<std::int64_t>(source.size());
  codecs::for_range(pool_for, size, (size + threads - 1) / threads,
                    [&](std::int64_t begin, std::int64_t end) {
                      std::memcpy(target.data() + begin, source.data() + begin, end - begin);
                    });
}

}  // namespace

bool any_row_failed() {
  return failed;
}

void Workbench::load(const Source& wanted) {
  if (loaded == &wanted) return;
  const std::span<std::byte> bytes = source.first(wanted.bytes());
  wanted.fill(bytes);
  root_mean_square = bench::root_mean_square(wanted.what.type, bytes);
  loaded = &wanted;
}

const char* Row::begin() {
  set_threads(threads_);
  bench_.load(source_);
  if (subject_) return nullptr;
  bound_ = contender_.relative_bound * bench_.root_mean_square;
  subject_ = contender_.make(bound_);
  if (!subject_) return "cannot be made for these data";
  if (const char* error = round()) return error;
  errors_ = errors_of(what_.type, bench_.source.first(source_.bytes()),
                      bench_.target.first(source_.bytes()), subject_->restored());
  return nullptr;
}

const char* Row::round() {
  const std::span<const std::byte> source = bench_.source.first(source_.bytes());
  const std::span<std::byte> target = bench_.target.first(source_.bytes());
  const std::span<std::byte> out = bench_.encoded.first(subject_->capacity(what_));
  const double start = now();
  copy(source, target, threads_);
  const double copied = now();
  const auto size = subject_->encode(what_, source, out, rounds_++, pool_for);
  const double encoded = now();
  if (!size) return "cannot represent these data";
  encoded_bytes_ = *size;
  if (!subject_->decode(what_, out, target, pool_for)) return "decoding failed";
  const double decoded = now();
  copy_.push_back(copied - start);
  encode_.push_back(encoded - copied);
  decode_.push_back(decoded - encoded);
  return nullptr;
}

void Row::run(benchmark::State& state) {
  const char* error = begin();
  if (error == nullptr) {
    for (auto _ : state) {
      error = round();
      if (error != nullptr) break;
      state.SetIterationTime(encode_.back() + decode_.back());
    }
  }
  while (error == nullptr && copy_.size() < kFewestRounds) error = round();
  if (error != nullptr) {
    state.SkipWithError(error);
    failed = true;
    return;
  }
  report(state);
}

void Row::report(benchmark::State& state) const {
  const auto bytes = static_cast<double>(source_.bytes());
  const auto speed = [&](const std::vector<double>& seconds) {
    return bytes / shortest(seconds) * 1e-9;
  };
  state.counters["memcpy_GBps"] = speed(copy_);
  state.counters["encode_GBps"] = speed(encode_);
  state.counters["decode_GBps"] = speed(decode_);
  state.counters["encode_vs_memcpy"] = shortest(copy_) / shortest(encode_);
  state.counters["decode_vs_memcpy"] = shortest(copy_) / shortest(decode_);
  state.counters["encode_vs_memcpy_median"] = median_ratio(copy_, encode_);
  state.counters["decode_vs_memcpy_median"] = median_ratio(copy_, decode_);
  state.counters["compression_ratio"] = bytes / static_cast<double>(encoded_bytes_);
  state.counters["relative_error"] = errors_.relative;
  state.counters["max_error"] = errors_.largest;
  if (bound_ > 0) state.counters["error_bound"] = bound_;
  state.counters["raw_bytes"] = bytes;
  state.counters["rounds"] = static_cast<double>(copy_.size());
}

}  // namespace cinch::bench
