// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "policy/choice.h"
#include "policy/layer.h"
#include "policy/policy.h"

namespace cinch::policy {

/// What "budget" and "auto" choose among for a layer of this kind, size and place.
std::vector<Choice> budget_menu(const Layer& layer, const Settings& settings);

/// What they begin with, before anything is measured.
Choice budget_start(const Layer& layer, const Settings& settings);

/// Seconds that encoding and decoding `raw_bytes`, and moving what is offloaded there and back,
/// take. @param held_bytes What the choice makes of them
double seconds_of(const Choice& choice, double raw_bytes, double held_bytes) noexcept;

}  // namespace cinch::policy
