// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "../fakecuda.h"

/// Marks a function as exported. All others are hidden.
#define FAKECUDA_API extern "C" __attribute__((visibility("default")))

namespace fakecuda {

/// One lock for everything: a fake need not be fast, but its schedules must be reproducible.
/// Recursive, because work runs under it and may take it again.
std::recursive_mutex& global_lock();
using Guard = std::lock_guard<std::recursive_mutex>;

}  // namespace fakecuda
