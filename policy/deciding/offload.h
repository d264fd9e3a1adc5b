// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "policy/policy.h"

namespace cinch::policy {

/// When a storage with these uses moves from a CUDA device to the host. For each use the first
/// matching rule decides if it sets `offload`; else the settings and `chosen` (an adaptive policy
/// wants the move) do. `never` for one use decides for the storage.
Decision::Offload offload_of(const Settings& settings, std::span<const Use> uses,
                             bool chosen = false) noexcept;

}  // namespace cinch::policy
