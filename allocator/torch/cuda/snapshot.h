// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <c10/core/CachingDeviceAllocator.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/history.h"

namespace cinch::allocator {

/// A core's blocks as PyTorch's memory snapshots show them: mapped stretches of one stream's blocks
/// are the segments, all of them expandable.
std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments(const Core& core,
                                                               c10::DeviceIndex device,
                                                               const History& history);

}  // namespace cinch::allocator
