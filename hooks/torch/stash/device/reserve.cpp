// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/reserve.h"

#include <exception>
#include <utility>

#include <c10/core/StreamGuard.h>

#include "hooks/torch/stash/device/streams.h"

namespace cinch::hooks {

void Reserve::ensure(int device, std::size_t bytes) noexcept try {
  const auto index = static_cast<std::size_t>(device);
  {
    const std::lock_guard lock(mutex_);
    if (devices_[index].bytes >= bytes) return;
  }
  // Without the lock: the allocator may ask the stash for memory, which calls release().
  const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::OptionalStreamGuard guard(lasting(current_stream(on)));
  Reserved fresh{c10::GetAllocator(c10::kCUDA)->allocate(bytes), bytes};
  const std::lock_guard lock(mutex_);
  if (devices_[index].bytes < bytes) std::swap(devices_[index], fresh);
} catch (const std::exception&) {
  // Without a reserve, encoding has to find what it needs.
}

std::size_t Reserve::release(int device) noexcept {
  Reserved released;
  {
    const std::lock_guard lock(mutex_);
    std::swap(devices_[static_cast<std::size_t>(device)], released);
  }
  return released.bytes;
}

}  // namespace cinch::hooks
