// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/reserve.h"

#include <exception>
#include <utility>

#include <c10/core/DeviceGuard.h>

namespace cinch::hooks {

void Reserve::put_aside(c10::Device device, std::size_t bytes) noexcept try {
  const auto index = static_cast<std::size_t>(device.index());
  {
    const std::lock_guard lock(mutex_);
    if (devices_[index].bytes >= bytes) return;
  }
  // Not under the lock: the allocator may ask the stash, and so this.
  const c10::OptionalDeviceGuard guard(device);
  Aside fresh{c10::GetAllocator(device.type())->allocate(bytes), bytes};
  const std::lock_guard lock(mutex_);
  if (devices_[index].bytes < bytes) std::swap(devices_[index], fresh);
} catch (const std::exception&) {
  // No memory, so none aside: encoding then has to find what it needs.
}

std::size_t Reserve::release(c10::Device device) noexcept {
  Aside released;
  {
    const std::lock_guard lock(mutex_);
    std::swap(devices_[static_cast<std::size_t>(device.index())], released);
  }
  return released.bytes;
}

}  // namespace cinch::hooks
