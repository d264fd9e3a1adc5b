// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {

/// A copy between a device and page-locked memory. @pre the copy is the last work of `on` so far
struct Copied final : CopyMoment {
  explicit Copied(const c10::Stream& on) : work(work_of(on)) {
    static std::atomic<std::uint64_t> copies{0};
    queue = (static_cast<std::intptr_t>(on.device_index()) << 48) ^ on.id();
    number = copies.fetch_add(1, std::memory_order_relaxed);
  }
  StreamWork work;
};

/// Makes `reader`'s further work wait for a copy that uses a piece.
inline void block(const std::shared_ptr<const CopyMoment>& moment, const c10::Stream& reader) {
  static_cast<const Copied&>(*moment).work.block(reader);
}

}  // namespace cinch::hooks
