// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "policy/policy.h"

namespace cinch::policy {

/// How entries may be held when a device has no memory left and encoding them early, as `settings`
/// say, was not enough: the rules of `settings`, then what the preset "division" does to each
/// operator, its table of what is safe. Nothing where `settings` don't allow that: switched off, or
/// under "lossless", which never approximates.
std::optional<Settings> harder(const Settings& settings);

}  // namespace cinch::policy
