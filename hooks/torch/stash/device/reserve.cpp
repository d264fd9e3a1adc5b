// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/reserve.h"

#include <exception>
#include <utility>

#include <c10/core/StreamGuard.h>

#include "hooks/torch/stash/device/streams.h"

namespace cinch::hooks {

void Reserve::ensure(int device, std::size_t bytes) noexcept try {
  Reserved& reserved = devices_[static_cast<std::size_t>(device)];
  if (reserved.bytes.load(std::memory_order_relaxed) >= bytes) return;
  // Without the lock: the allocator may ask the stash for memory, which calls release().
  const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::OptionalStreamGuard guard(lasting(current_stream(on)));
  c10::DataPtr fresh = c10::GetAllocator(c10::kCUDA)->allocate(bytes);
  const std::lock_guard lock(mutex_);
  if (reserved.bytes.load(std::memory_order_relaxed) >= bytes) return;
  std::swap(reserved.memory, fresh);
  reserved.bytes.store(bytes, std::memory_order_relaxed);
} catch (const std::exception&) {
  // Without a reserve, encoding has to find what it needs.
}

std::size_t Reserve::release(int device) noexcept {
  Reserved& reserved = devices_[static_cast<std::size_t>(device)];
  c10::DataPtr released;
  const std::lock_guard lock(mutex_);
  std::swap(reserved.memory, released);
  return reserved.bytes.exchange(0, std::memory_order_relaxed);
}

}  // namespace cinch::hooks
