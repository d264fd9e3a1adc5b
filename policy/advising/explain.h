// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "policy/policy.h"

namespace cinch::policy {

/// Describes a policy to the user, one sentence a line: what is approximated and how closely,
/// what stays exact, what is measured and when, and what it costs.
std::string explain(const Settings& settings);

}  // namespace cinch::policy
