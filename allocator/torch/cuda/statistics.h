// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "allocator/stats.h"

namespace cinch::allocator {

/// A core's figures as PyTorch tells them (torch.cuda.memory_stats), together with those of
/// PyTorch's own allocator, which holds private pools.
///
/// Accumulated figures count from `baseline` on. "Segments" are physical handles. As with PyTorch's
/// expandable segments nothing counts as inactive split: every free page can be moved or given
/// back. The peak of the two allocators together is not known; told is the larger of "one's peak
/// while the other had what it has now".
c10::CachingDeviceAllocator::DeviceStats device_stats(
    const Stats& now, const Stats& baseline,
    const c10::CachingDeviceAllocator::DeviceStats& native);

}  // namespace cinch::allocator
