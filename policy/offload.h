// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "policy/policy.h"

namespace cinch::policy {

/// Whether a storage of these uses leaves a CUDA device. Of each use the first rule that matches
/// decides when it speaks of offloading, else the settings do, or `chosen`: that an adaptive policy
/// wants it. A use that must stay wins.
Decision::Offload offload_of(const Settings& settings, std::span<const Use> uses,
                             bool chosen = false) noexcept;

}  // namespace cinch::policy
