// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/threads.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace cinch::bench {
namespace {

class Pool {
 public:
  explicit Pool(int count) : count_(count) {
    for (int index = 1; index < count; ++index) {
      workers_.emplace_back([this, index] { work(index); });
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    body_ = nullptr;
    begin();
    for (std::thread& worker : workers_) worker.join();
  }

  int count() const { return count_; }

  void run(std::int64_t n, std::int64_t grain, codecs::ParallelForBody body, void* argument) {
    n_ = n;
    grain_ = grain;
    body_ = body;
    argument_ = argument;
    busy_.store(count_ - 1, std::memory_order_relaxed);
    begin();
    run_range(0);
    for (int busy = busy_.load(); busy != 0; busy = busy_.load()) busy_.wait(busy);
  }

 private:
  void begin() {
    ++round_;
    round_.notify_all();
  }

  void run_range(int index) {
    const std::int64_t blocks = (n_ + grain_ - 1) / grain_;
    const std::int64_t share = (blocks + count_ - 1) / count_ * grain_;
    const std::int64_t first = std::min(n_, index * share);
    const std::int64_t last = std::min(n_, first + share);
    if (first < last) body_(argument_, first, last);
  }

  void work(int index) {
    for (std::uint32_t seen = 0;;) {
      round_.wait(seen);
      ++seen;
      if (body_ == nullptr) return;
      run_range(index);
      if (--busy_ == 0) busy_.notify_one();
    }
  }

  int count_;
  std::int64_t n_ = 0;
  std::int64_t grain_ = 1;
  codecs::ParallelForBody body_ = nullptr;
  void* argument_ = nullptr;
  std::atomic<std::uint32_t> round_ = 0;
  std::atomic<int> busy_ = 0;
  std::vector<std::thread> workers_;
};

std::unique_ptr<Pool>& pool() {
  static auto instance = std::make_unique<Pool>(1);
  return instance;
}

}  // namespace

void set_threads(int count) {
  if (pool()->count() != count) pool() = std::make_unique<Pool>(count);
}

void pool_for(std::int64_t n, std::int64_t grain, codecs::ParallelForBody body, void* argument) {
  if (n > 0) pool()->run(n, grain, body, argument);
}

}  // namespace cinch::bench
