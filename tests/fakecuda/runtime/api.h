// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "../fakecuda.h"

/// What the library exports; everything else is hidden.
#define FAKECUDA_API extern "C" __attribute__((visibility("default")))

namespace fakecuda {

/// One lock for everything: a fake need not be fast, but its schedules must be reproducible. Work
/// that is done under it may come back for more.
std::recursive_mutex& global_lock();
using Guard = std::lock_guard<std::recursive_mutex>;

}  // namespace fakecuda
