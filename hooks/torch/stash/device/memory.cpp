// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/memory.h"

#include <exception>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/process/fork.h"

namespace cinch::hooks {

std::vector<telemetry::Report::Device> device_memory() {
  std::vector<telemetry::Report::Device> devices;
  // In a forked child a lock of PyTorch's allocator may be held by a thread that is not there.
  if (is_forked_child() || !c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return devices;
  try {
    auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
    if (allocator == nullptr || !allocator->initialized()) return devices;
    const c10::DeviceIndex count = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (c10::DeviceIndex index = 0; index < count; ++index) {
      const auto stats = allocator->getDeviceStats(index);
      const auto reserved = static_cast<std::uint64_t>(stats.reserved_bytes[all].peak);
      if (reserved == 0) continue;
      devices.push_back({index, cuda_plugin() == nullptr ? "PyTorch" : "Cinch",
                         static_cast<std::uint64_t>(stats.allocated_bytes[all].peak), reserved, 0});
    }
  } catch (const std::exception&) {
    // The allocator has no figures.
  }
  return devices;
}

}  // namespace cinch::hooks
