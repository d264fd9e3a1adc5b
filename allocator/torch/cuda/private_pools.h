// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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

  void begin(c10::MempoolId_t pool, Filter filter) {
    const std::unique_lock lock(mutex_);
    filters_.emplace_back(pool, std::move(filter));
    count_.store(filters_.size(), std::memory_order_release);
  }

  /// False when there is no such pool.
  bool end(c10::MempoolId_t pool) {
    const std::unique_lock lock(mutex_);
    for (auto at = filters_.begin(); at != filters_.end(); ++at) {
      if (at->first != pool) continue;
      filters_.erase(at);
      count_.store(filters_.size(), std::memory_order_release);
      return true;
    }
    return false;
  }

  /// Whether any stream is directed to a pool: then a graph may be being captured.
  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

  /// Whether a request of this thread for the stream goes to a private pool.
  bool take(cudaStream_t stream) const {
    if (!any()) return false;
    const std::shared_lock lock(mutex_);
    for (const auto& [pool, filter] : filters_) {
      if (filter(stream)) return true;
    }
    return false;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::vector<std::pair<c10::MempoolId_t, Filter>> filters_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace cinch::allocator
