// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>

namespace cinch::allocator {

/// The streams of one device (or threads: the filter decides) that PyTorch has directed to a
/// private pool: graph capture, torch.cuda.MemPool, graph trees. PyTorch's own allocator serves
/// those pools. Thread-safe; costs one atomic load while there are none.
class PrivatePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  /// @param captures Whether a graph is (about to be) captured into the pool
  void begin(c10::MempoolId_t pool, Filter filter, bool captures) {
    const std::unique_lock lock(mutex_);
    pools_.push_back({pool, std::move(filter), captures});
    count();
  }

  /// What ended.
  enum class Ended : std::uint8_t { nothing, pool, capture };
  Ended end(c10::MempoolId_t pool) {
    const std::unique_lock lock(mutex_);
    const auto at = std::ranges::find(pools_, pool, &Pool::id);
    if (at == pools_.end()) return Ended::nothing;
    const bool captured = at->captures;
    pools_.erase(at);
    count();
    return captured ? Ended::capture : Ended::pool;
  }

  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }
  /// Whether a graph may be being captured.
  bool capturing() const noexcept { return captures_.load(std::memory_order_acquire) != 0; }

  /// Whether a request of this thread for the stream goes to a private pool. @param is_ours Whether
  /// it is a request of Cinch's own, which of all pools go to those of captures only
  bool take(cudaStream_t stream, bool is_ours) const {
    if (!any()) return false;
    const std::shared_lock lock(mutex_);
    return std::ranges::any_of(pools_, [&](const Pool& pool) {
      return (pool.captures || !is_ours) && pool.filter(stream);
    });
  }

 private:
  struct Pool {
    c10::MempoolId_t id;
    Filter filter;
    bool captures;
  };

  // pre: mutex_ is held
  void count() noexcept {
    captures_.store(static_cast<std::size_t>(std::ranges::count_if(pools_, &Pool::captures)),
                    std::memory_order_release);
    count_.store(pools_.size(), std::memory_order_release);
  }

  mutable std::shared_mutex mutex_;
  std::vector<Pool> pools_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> captures_{0};
};

}  // namespace cinch::allocator
