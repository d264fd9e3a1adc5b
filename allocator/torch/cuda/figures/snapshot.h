// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <c10/core/CachingDeviceAllocator.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/figures/history.h"

namespace cinch::allocator {

/// A core's blocks in the form of PyTorch's memory snapshots. A mapped range of one stream's blocks
/// is a segment; all are expandable.
std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments(const Core& core,
                                                               c10::DeviceIndex device,
                                                               const History& history);

}  // namespace cinch::allocator
