// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "policy/adapting/layer.h"
#include "policy/choice.h"
#include "policy/policy.h"

namespace cinch::policy {

/// The choices of "budget" for a layer, by its kind, size and device.
std::vector<Choice> budget_menu(const Layer& layer, const Settings& settings);

/// Its first choice for a layer, before anything is measured.
Choice budget_start(const Layer& layer, const Settings& settings);

/// Seconds to encode and decode `raw_bytes` by `choice` and, if it offloads, to copy what is held
/// to the host and back. @param held_bytes Bytes as held by `choice`
double seconds_of(const Choice& choice, double raw_bytes, double held_bytes) noexcept;

}  // namespace cinch::policy
