// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/figures/snapshot.h"

namespace cinch::allocator {

std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments(const Core& core,
                                                               c10::DeviceIndex device,
                                                               const History& history) {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> result;
  bool open = false;
  for (const Core::BlockInfo& block : core.snapshot()) {
    if (block.state == State::stuck) {  // unusable, and mapped in part only
      open = false;
      continue;
    }
    void* stream = reinterpret_cast<void*>(block.stream);  // NOLINT(performance-no-int-to-ptr)
    if (!open || result.back().address + result.back().total_size != block.address ||
        result.back().stream != stream || result.back().is_large == block.small) {
      auto& segment = result.emplace_back();
      segment.device = device;
      segment.address = block.address;
      segment.stream = stream;
      segment.is_large = !block.small;
      segment.is_expandable = true;
      open = true;
    }
    auto& segment = result.back();
    auto& info = segment.blocks.emplace_back();
    info.size = block.bytes;
    info.requested_size = block.requested;
    info.allocated = block.state == State::used;
    info.active = info.allocated || block.state == State::pending;
    if (info.allocated) info.context_when_allocated = history.context_of(block.address);
    segment.total_size += info.size;
    segment.requested_size += info.requested_size;
    if (info.allocated) segment.allocated_size += info.size;
    if (info.active) segment.active_size += info.size;
  }
  return result;
}

}  // namespace cinch::allocator
