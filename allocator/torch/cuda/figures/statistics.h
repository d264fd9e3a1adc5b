// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "allocator/stats.h"

namespace cinch::allocator {

/// A core's figures in PyTorch's form (torch.cuda.memory_stats), together with those of PyTorch's
/// own allocator, which holds private pools.
///
/// Accumulated figures count from `baseline` on. "Segments" are physical handles. As with PyTorch's
/// expandable segments nothing counts as inactive split: every free page can be moved or given
/// back. The peak of both together is not known; reported is the larger of "one's peak plus what
/// the other has now".
c10::CachingDeviceAllocator::DeviceStats device_stats(
    const Stats& now, const Stats& baseline,
    const c10::CachingDeviceAllocator::DeviceStats& native);

}  // namespace cinch::allocator
