// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "codecs/cuda/codec.h"
#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/device/stream_work.h"

namespace cinch::hooks {

/// Results of encodings in page-locked memory, which devices write and the host reads without
/// asking CUDA. Segments stay until the process ends. Thread-safe; no call waits for a device.
class ResultPool {
 public:
  explicit ResultPool(PinnedPool::Host host) : host_(host) {}
  ResultPool(const ResultPool&) = delete;
  ResultPool& operator=(const ResultPool&) = delete;

  /// A result of zeros; null when the host has no page-locked memory for it.
  codecs::cuda::Result* take() noexcept;

  /// What has to be done before a result is used again.
  struct Pending {
    codecs::cuda::Result* result = nullptr;
    bool comes = false;               ///< the device will write the encoded size, if it has not yet
    std::vector<StreamWork> works{};  ///< work that reads it, or may write it
  };
  void give_back(Pending pending) noexcept;

  /// Whether the device has written the encoded size, and all else of the result.
  static bool is_written(const codecs::cuda::Result& result) noexcept;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

  static constexpr std::size_t segment_bytes = std::size_t{64} << 10;
  static constexpr std::size_t most_segments = 256;

 private:
  /// A cache line, which no other device writes to.
  struct alignas(64) Slot {
    codecs::cuda::Result result;
  };
  static bool is_over(const Pending& pending) noexcept;
  void look_at_pending();
  void add_segment();

  const PinnedPool::Host host_;
  std::mutex mutex_;
  std::vector<codecs::cuda::Result*> free_;
  std::vector<Pending> pending_;
  std::size_t segments_ = 0;
  bool refused_ = false;  // the host had no memory, and nothing was given back since
};

}  // namespace cinch::hooks
