// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "codecs/cuda/codec.h"

namespace cinch::codecs::cuda {

/// The streams that Library::make_stream made. Their kernels are to run beside the program's, so
/// they get few blocks of threads: of all that a device holds, at most what a third of its
/// multiprocessors do. Streams are never removed. Thread-safe.
class OwnStreams {
 public:
  /// Adds a stream of a device with so many multiprocessors.
  static void add(Stream stream, unsigned processors) noexcept {
    const std::size_t at = count_.fetch_add(1, std::memory_order_relaxed);
    if (at >= slots_.size()) return;  // its kernels get as many blocks as the program's
    slots_[at].most_threads = (processors + 2) / 3 * kThreads;
    slots_[at].stream.store(stream, std::memory_order_release);
  }

  /// How many threads a kernel in `stream` may have.
  static std::int64_t most_threads(Stream stream) noexcept {
    if (stream != nullptr) {
      for (const Slot& slot : slots_) {
        const Stream own = slot.stream.load(std::memory_order_acquire);
        if (own == stream) return slot.most_threads;
        if (own == nullptr) break;
      }
    }
    return std::numeric_limits<std::int64_t>::max();
  }

 private:
  static constexpr std::int64_t kThreads = 1024;  ///< of a multiprocessor: half of its most

  struct Slot {
    std::atomic<Stream> stream;  // null until the other is set
    std::int64_t most_threads;
  };
  static inline std::atomic<std::size_t> count_ = 0;
  static inline std::array<Slot, 64> slots_ = {};
};

}  // namespace cinch::codecs::cuda
