// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "policy/policy.h"

namespace cinch::policy {

/// Settings for a rescue, when a device has no memory left although entries were encoded early as
/// `settings` say: the rules of `settings`, then the preset "division" with its rules, which are
/// safe for each operator.
/// @return nothing where `settings` forbid it: switched off, or "lossless", which is always exact
std::optional<Settings> harder(const Settings& settings);

}  // namespace cinch::policy
